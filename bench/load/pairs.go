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
	Targets  []Target // in place of Addr, if any: several servers
	Conns    int
	InFlight int // of a connection
	Pool     int // paths
	Echo     bool
	Warm     time.Duration // before the measuring begins
	Measure  time.Duration
}

// Target is one server of a cluster, and what is asked of it. Connection i goes to
// target i modulo how many there are. No two targets share a namespace.
type Target struct {
	Addr       string
	Namespaces []int // numbers below Namespaces: of the pool, the paths in these
}

// share is a connection's part of the work.
type share struct {
	addr       string
	namespaces []int // nil: all
	pool       int   // paths of all connections to the same server
	slots      int   // of all these
	first      int   // of these slots, the connection's own first
}

// share of connection i.
func (p Pairs) share(i int) (s share, err error) {
	s = share{addr: p.Addr, pool: p.Pool, slots: p.Conns * p.InFlight, first: i * p.InFlight}
	if n := len(p.Targets); n > 0 {
		t := p.Targets[i%n]
		if len(t.Namespaces) == 0 {
			return s, fmt.Errorf("target %s: it has no namespace to be asked for", t.Addr)
		}
		s = share{
			addr: t.Addr, namespaces: t.Namespaces, pool: p.Pool / Namespaces * len(t.Namespaces),
			slots: (p.Conns - i%n + n - 1) / n * p.InFlight, first: i / n * p.InFlight,
		}
	}
	if s.pool < s.slots {
		return s, fmt.Errorf("a pool of %d paths is less than %d requests in flight take", s.pool, s.slots)
	}
	return s, nil
}

// path is the number of the share's i-th path.
func (s *share) path(i int) int {
	if s.namespaces == nil {
		return i
	}
	n := len(s.namespaces)
	return i/n*Namespaces + s.namespaces[i%n]
}

// lease is the ttl_ms of workloads that hold their locks for a moment.
const leaseMillis = 60_000

// idRing is how many ids back an answer may come: a table of what each of the last
// ids was about.
const idRing = 1 << 16

// Run runs the workload and answers the pairs done, and the time from the sending
// of the acquire to the answer to the release.
func (p Pairs) Run(ctx context.Context) (Result, error) {
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
		s, err := p.share(i)
		if err != nil {
			return Result{}, err
		}
		c, err := dial(s.addr, !p.Echo)
		if err != nil {
			return Result{}, err
		}
		workers[i] = p.worker(c, i, s, &stop, &measuring)
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
	share     share    // the slots' paths are of it
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
	path             int  // of the share
	held             bool // the release is under way
	began            time.Time
}

// worker makes the i-th connection's worker. Slots begin at different places of
// the pool and go through it in steps of as many as there are, so that no two ask
// for the same path at the same time.
func (p Pairs) worker(c *conn, i int, own share, stop, measuring *atomic.Bool) *pairWorker {
	own.pool = own.pool / own.slots * own.slots
	w := &pairWorker{
		conn: c, slots: make([]pairSlot, p.InFlight), about: make([]uint16, idRing), share: own, echo: p.Echo,
		stop: stop, measuring: measuring, taken: newHistogram(),
	}
	for j := range w.slots {
		owner := fmt.Sprintf("bench-%03d-%05d", i, j)
		w.slots[j] = pairSlot{
			acquire: newFrame(&wire.Request{
				Op: wire.OpAcquire, Owner: owner, TTLMillis: leaseMillis, Locks: []wire.LockRequest{{Path: pathForm}},
			}),
			release: newFrame(&wire.Request{Op: wire.OpRelease, Owner: owner,
				Releases: []wire.ReleaseRequest{{Path: pathForm}}}),
			path: own.first + j,
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
		w.out = s.release.appendPath(w.out, w.id, w.share.path(s.path))
		return
	}
	s.began = now
	w.out = s.acquire.appendPath(w.out, w.id, w.share.path(s.path))
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
			return fmt.Errorf("%w: %s is %v, and nobody else asks for it", errRefused,
				Path(w.share.path(s.path)), status)
		}
	}
	now := time.Time{}
	if s.held {
		now = time.Now()
		w.done.Add(1)
		if w.measuring.Load() {
			record(w.taken, now.Sub(s.began))
		}
		s.path = (s.path + w.share.slots) % w.share.pool
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
