package load

import (
	"context"
	"fmt"
	"sync"

	"github.com/pathlockd/pathlockd/wire"
)

// Fill takes locks and keeps them: the first Locks paths of the pool, by Owners
// owners in turn.
type Fill struct {
	Addr   string
	Locks  int
	Owners int
}

// fillConns and fillInFlight are how it asks: together fewer than a group takes by
// default at once (max_inflight_per_group).
const (
	fillConns    = 8
	fillInFlight = 64
)

// Run returns when all are held.
func (f Fill) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	for i := range fillConns {
		running.Go(func() {
			if err := f.share(ctx, i); err != nil {
				cancel(fmt.Errorf("take %d locks: %w", f.Locks, err))
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}

// share takes every fillConns-th lock.
func (f Fill) share(ctx context.Context, first int) error {
	c, err := dial(f.Addr, true)
	if err != nil {
		return err
	}
	defer c.nc.Close()
	req := wire.Request{Op: wire.OpAcquire, TTLMillis: wire.MaxTTLMillis, Locks: make([]wire.LockRequest, 1)}
	next, open := first, 0
	answered := func(payload []byte) error {
		id, code, r, fields, err := wire.DecodeReply(payload)
		if err != nil {
			return err
		}
		if err := refusal(code, &r, fields); err != nil {
			return err
		}
		if status := wire.Status(r.Uint()); id == 0 || status != wire.StatusOK {
			return fmt.Errorf("%w: a path that nobody holds is %v", errRefused, status)
		}
		open--
		return nil
	}
	for ctx.Err() == nil {
		for ; open < fillInFlight && next < f.Locks; next += fillConns {
			c.id++
			req.Owner, req.Locks[0].Path = fmt.Sprintf("owner-%06d", next%f.Owners), Path(next)
			c.out = wire.AppendRequest(c.out, uint64(c.id), &req)
			open++
		}
		if open == 0 {
			return nil
		}
		if err := c.flush(); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		if err := c.read(answered); err != nil {
			return err
		}
	}
	return nil
}
