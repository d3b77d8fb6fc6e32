package pathlockd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// headStart is how long an address is ahead of the next one. It is what a node that
// takes connections and says nothing costs, and each address that leads nowhere.
const headStart = 200 * time.Millisecond

// racer is what became of an attempt to reach an address.
type racer struct {
	cn  *conn
	err error
}

// race makes a connection of a lane to one of several addresses: to that of which an answer
// comes first, where each has a head start before the next. That an address takes a
// connection says little, as the system does so for a process that hangs; so each is
// asked for a sign of life. Hello is said to one at a time: with it the session's leases
// hang on the connection, and end with it.
func (c *Client) race(ctx context.Context, l *lane, all []address, patience time.Duration) (*conn, error) {
	if len(all) == 1 {
		return c.connect(ctx, l, all[0], patience)
	}
	running, cancel := context.WithCancel(ctx)
	came := make(chan racer, len(all))
	begun, ended := 0, 0
	begin := func() {
		a := all[begun]
		begun++
		go func() {
			ctx, cancel := context.WithTimeout(running, patience)
			defer cancel()
			cn, err := c.reach(ctx, l, a)
			if err == nil {
				if err = cn.within(ctx, cn.knock); err != nil {
					cn.nc.Close()
					err = fmt.Errorf("pathlockd: no sign of life from %s: %w", a, err)
				}
			}
			came <- racer{cn, err}
		}()
	}
	defer func() {
		cancel()
		go closeLosers(came, begun-ended)
	}()
	next := time.NewTimer(0)
	defer next.Stop()
	var failed []error
	for ended < len(all) {
		select {
		case <-ctx.Done():
			return nil, errors.Join(append(failed, context.Cause(ctx))...)
		case <-next.C:
			if begun < len(all) {
				begin()
				if planted != plantInTurn {
					next.Reset(headStart)
				}
			}
		case r := <-came:
			ended++
			if r.err == nil {
				ctx, cancel := context.WithTimeout(ctx, patience)
				r.err = r.cn.open(ctx)
				cancel()
			}
			if r.err == nil {
				return r.cn, nil
			}
			failed = append(failed, r.err)
			next.Reset(0)
		}
	}
	return nil, errors.Join(failed...)
}

// closeLosers closes the connections of so many racers that are on their way.
func closeLosers(came chan racer, n int) {
	for range n {
		if r := <-came; r.err == nil {
			r.cn.nc.Close()
		}
	}
}

// knock waits for a sign of life: a server answers a ping before hello, and be it that
// hello is to come first.
func (cn *conn) knock() error {
	if _, err := cn.nc.Write(wire.AppendRequest(nil, 1, &wire.Request{Op: wire.OpPing})); err != nil {
		return err
	}
	return cn.await("ping before hello", func(payload []byte) (done bool, err error) {
		id, code, r, fields, err := wire.DecodeReply(payload)
		if err == nil && id == 0 && wire.PushKind(code) == wire.PushGoodbye {
			_, err = cn.farewell(&r, fields)
		}
		return id == 1, err
	})
}
