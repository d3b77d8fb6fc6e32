package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/pathlockd/pathlockd/wire"
)

// Pairs is the workload of distinct paths: each of Conns connections keeps
// InFlight requests unanswered, and each of these takes a path of the pool that no
// other asks for, releases it when it is granted, and goes on to the next.
type Pairs struct {
	Addr     string
	Conns    int
	InFlight int // of a connection
	Pool     int // paths
	Echo     bool
	Warm     time.Duration // before the measuring begins
	Measure  time.Duration
}

// lease is the ttl_ms of workloads that hold their locks for a moment.
const leaseMillis = 60_000

// idRing is how many ids back an answer may come: a table of what each of the last
// ids was about.
const idRing = 1 << 16

// Run runs the workload and answers the pairs done, and the time from the sending
// of the acquire to the answer to the release.
func (p Pairs) Run(ctx context.Context) (Result, error) {
	if p.Pool < p.Conns*p.InFlight {
		return Result{}, fmt.Errorf("a pool of %d paths is less than %d connections with %d requests in flight take", p.Pool, p.Conns, p.InFlight)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var stop, measuring atomic.Bool
	workers := make([]*pairWorker, p.Conns)
	defer func() {
		for _, w := range workers {
			if w != nil {
				_ = w.nc.Close() // all that was sent is answered
			}
		}
	}()
	for i := range workers {
		c, err := dial(p.Addr, !p.Echo)
		if err != nil {
			return Result{}, err
		}
		workers[i] = p.worker(c, i, &stop, &measuring)
	}
	var running sync.WaitGroup
	for _, w := range workers {
		running.Go(func() {
			if err := w.run(); err != nil {
				cancel(err)
			}
		})
	}
	var res Result
	if pause(ctx, p.Warm) {
		measuring.Store(true)
		res.count(ctx, p.Measure, func() int64 { return total(workers) })
		measuring.Store(false)
	}
	stop.Store(true)
	running.Wait()
	if err := context.Cause(ctx); err != nil {
		return Result{}, err
	}
	all := make([]*hdrhistogram.Histogram, len(workers))
	for i, w := range workers {
		all[i] = w.taken
	}
	res.latencies(all)
	return res, nil
}

func total(workers []*pairWorker) (sum int64) {
	for _, w := range workers {
		sum += w.done.Load()
	}
	return sum
}

// pairWorker is one connection of it.
type pairWorker struct {
	*conn
	slots     []pairSlot
	about     []uint16 // slot by id, modulo idRing
	step      int      // from one path of a slot to its next
	pool      int
	echo      bool
	stop      *atomic.Bool
	measuring *atomic.Bool
	taken     *hdrhistogram.Histogram
	open      int // slots with a request in flight
	done      atomic.Int64
}

// pairSlot is one request in flight.
type pairSlot struct {
	acquire, release frame
	path             int
	held             bool // the release is under way
	began            time.Time
}

// worker makes the i-th connection's worker. Slots begin at different places of
// the pool and go through it in steps of as many as there are, so that no two ask
// for the same path at the same time.
func (p Pairs) worker(c *conn, i int, stop, measuring *atomic.Bool) *pairWorker {
	w := &pairWorker{
		conn: c, slots: make([]pairSlot, p.InFlight), about: make([]uint16, idRing), step: p.Conns * p.InFlight,
		pool: p.Pool / (p.Conns * p.InFlight) * (p.Conns * p.InFlight), echo: p.Echo, stop: stop, measuring: measuring,
		taken: newHistogram(),
	}
	for j := range w.slots {
		owner := fmt.Sprintf("bench-%03d-%05d", i, j)
		w.slots[j] = pairSlot{
			acquire: newFrame(&wire.Request{
				Op: wire.OpAcquire, Owner: owner, TTLMillis: leaseMillis, Locks: []wire.LockRequest{{Path: pathForm}},
			}),
			release: newFrame(&wire.Request{Op: wire.OpRelease, Owner: owner, Releases: []wire.ReleaseRequest{{Path: pathForm}}}),
			path:    i*p.InFlight + j,
		}
	}
	return w
}

// run drives the connection until it is told to stop and all is released.
func (w *pairWorker) run() error {
	now := time.Now()
	for i := range w.slots {
		w.send(i, now)
	}
	w.open = len(w.slots)
	for w.open > 0 {
		if err := w.flush(); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		if err := w.read(w.answered); err != nil {
			return err
		}
	}
	return nil
}

// send asks for what slot i asks next.
func (w *pairWorker) send(i int, now time.Time) {
	s := &w.slots[i]
	w.id++
	w.about[w.id%idRing] = uint16(i)
	if s.held {
		w.out = s.release.appendPath(w.out, w.id, s.path)
		return
	}
	s.began = now
	w.out = s.acquire.appendPath(w.out, w.id, s.path)
}

var errOldID = errors.New("an answer came too late to be told what it is about")

// answered takes an answer.
func (w *pairWorker) answered(payload []byte) error {
	id, code, r, fields, err := wire.DecodeReply(payload)
	if err != nil {
		return err
	}
	if id == 0 || w.id-uint32(id) >= idRing {
		return errOldID
	}
	i := int(w.about[id%idRing])
	s := &w.slots[i]
	if !w.echo {
		if err := refusal(code, &r, fields); err != nil {
			return err
		}
		if status := wire.Status(r.Uint()); !s.held && status != wire.StatusOK {
			return fmt.Errorf("%w: %s is %v, and nobody else asks for it", errRefused, Path(s.path), status)
		}
	}
	now := time.Time{}
	if s.held {
		now = time.Now()
		w.done.Add(1)
		if w.measuring.Load() {
			record(w.taken, now.Sub(s.began))
		}
		s.path = (s.path + w.step) % w.pool
		if w.stop.Load() {
			w.open--
			s.held = false
			return nil
		}
	}
	s.held = !s.held
	w.send(i, now)
	return nil
}
