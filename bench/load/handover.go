package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/pathlockd/pathlockd/wire"
)

// Handover is the workload of one hot mutex: Conns connections with Waiters clients
// each wait for the same path. Whoever is granted it sends its release and its next
// acquire in one write.
type Handover struct {
	Addr    string
	Addrs   []string // in place of Addr: servers of one cluster, to which the connections go in turn
	Path    int      // of the mutex; the last client of a run is still said to hold it for a while
	Conns   int
	Waiters int // on each connection
	Warm    time.Duration
	Measure time.Duration
	Queued  func() // called when all clients wait, unless nil
}

// addr is where connection i goes.
func (h Handover) addr(i int) string {
	if len(h.Addrs) == 0 {
		return h.Addr
	}
	return h.Addrs[i%len(h.Addrs)]
}

// ErrUnfair says that a waiter was granted the mutex out of its turn.
var ErrUnfair = errors.New("the mutex was not handed over in turn")

// grant is what the fairness of hand-overs is judged by.
type grant struct {
	token  int64 // they grow with each grant
	waiter int
}

// Run runs the workload and answers the hand-overs, and how long a client waited
// for its turn. It fails when a client was granted the mutex twice before all
// others had it once.
func (h Handover) Run(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	gate, err := h.close()
	if err != nil {
		return Result{}, err
	}
	defer gate.nc.Close()
	var measuring atomic.Bool
	waiting := make(chan struct{}, h.Conns) // a connection whose clients are all in the queue
	clients := make([]*crowd, h.Conns)
	var running sync.WaitGroup
	end := func() {
		for _, c := range clients {
			if c != nil {
				_ = c.nc.Close() // ends its goroutine
			}
		}
		running.Wait()
	}
	defer end()
	for i := range clients {
		c, err := dial(h.addr(i), true)
		if err != nil {
			return Result{}, err
		}
		clients[i] = newCrowd(c, Path(h.Path), i*h.Waiters, h.Waiters, &measuring)
	}
	for _, c := range clients {
		running.Go(func() {
			if err := c.run(waiting); err != nil {
				cancel(err)
			}
		})
	}
	for range clients {
		select {
		case <-waiting:
		case <-ctx.Done():
			return Result{}, context.Cause(ctx)
		}
	}
	if h.Queued != nil {
		h.Queued()
	}
	if err := gate.open(); err != nil {
		return Result{}, err
	}
	var res Result
	if pause(ctx, h.Warm) {
		measuring.Store(true)
		res.count(ctx, h.Measure, func() int64 { return handed(clients) })
		measuring.Store(false)
	}
	if err := context.Cause(ctx); err != nil {
		return Result{}, err
	}
	end()
	var all []*hdrhistogram.Histogram
	var grants []grant
	for _, c := range clients {
		all, grants = append(all, c.waited), append(grants, c.grants...)
	}
	res.latencies(all)
	return res, inTurn(grants, h.Conns*h.Waiters)
}

// inTurn checks that any n grants in a row, if there are n clients, are of n
// different ones.
func inTurn(grants []grant, n int) error {
	slices.SortFunc(grants, func(a, b grant) int { return cmp.Compare(a.token, b.token) })
	last := make(map[int]int)
	for i, g := range grants {
		if i > 0 && g.token == grants[i-1].token {
			return fmt.Errorf("%w: clients %d and %d hold it with the same token", ErrUnfair,
				grants[i-1].waiter, g.waiter)
		}
		if at, before := last[g.waiter]; before && i-at < n {
			return fmt.Errorf("%w: client %d had it again after %d grants, with %d clients waiting", ErrUnfair,
				g.waiter, i-at, n)
		}
		last[g.waiter] = i
	}
	return nil
}

func handed(all []*crowd) (sum int64) {
	for _, c := range all {
		sum += c.done.Load()
	}
	return sum
}

// gate keeps the mutex until all clients are in the queue, so that the order of the
// grants is known from the first.
type gate struct {
	*conn
	release frame
}

const gateOwner = "gate"

// close takes the mutex.
func (h Handover) close() (*gate, error) {
	c, err := dial(h.addr(0), true)
	if err != nil {
		return nil, err
	}
	path := Path(h.Path)
	g := &gate{c, newFrame(&wire.Request{Op: wire.OpRelease, Owner: gateOwner,
		Releases: []wire.ReleaseRequest{{Path: path}}})}
	err = g.ask(newFrame(&wire.Request{
		Op: wire.OpAcquire, Owner: gateOwner, TTLMillis: wire.MaxTTLMillis, Flags: wire.FlagNoQueue,
		Locks: []wire.LockRequest{{Path: path}},
	}))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take the mutex before the others: %w", err), c.nc.Close())
	}
	return g, nil
}

// open lets the first client in.
func (g *gate) open() error { return g.ask(g.release) }

// crowd is the clients on one connection.
type crowd struct {
	*conn
	first     int // number of its first client
	clients   []client
	about     map[uint32]int // waiting acquires: client by request id
	queued    int
	measuring *atomic.Bool
	waited    *hdrhistogram.Histogram
	grants    []grant
	done      atomic.Int64
}

type client struct {
	acquire, release frame
	since            time.Time
}

func newCrowd(c *conn, path string, first, n int, measuring *atomic.Bool) *crowd {
	w := &crowd{
		conn: c, first: first, clients: make([]client, n), about: make(map[uint32]int, n), measuring: measuring,
		waited: newHistogram(),
	}
	for i := range w.clients {
		owner := fmt.Sprintf("client-%06d", first+i)
		w.clients[i] = client{
			acquire: newFrame(&wire.Request{
				Op: wire.OpAcquire, Owner: owner, TTLMillis: leaseMillis, QueueTTLMillis: wire.MaxTTLMillis,
				Flags: wire.FlagWait,
				Locks: []wire.LockRequest{{Path: path}},
			}),
			release: newFrame(&wire.Request{Op: wire.OpRelease, Owner: owner,
				Releases: []wire.ReleaseRequest{{Path: path}}}),
		}
	}
	return w
}

// run asks for all clients, says when they are all in the queue, and goes on until
// the connection is closed.
func (w *crowd) run(waiting chan<- struct{}) error {
	now := time.Now()
	for asked := 0; ; {
		// No more at once than a group takes by default.
		for ; asked < len(w.clients) && asked-w.queued < fillInFlight; asked++ {
			w.ask(asked, now)
		}
		if err := w.flush(); err != nil {
			return nil // closed
		}
		before := w.queued
		if err := w.read(w.answered); err != nil {
			if errors.Is(err, errRefused) {
				return err
			}
			return nil // closed
		}
		if before < len(w.clients) && w.queued >= len(w.clients) {
			waiting <- struct{}{}
		}
	}
}

// ask lets client i wait.
func (w *crowd) ask(i int, now time.Time) {
	w.id++
	w.about[w.id] = i
	w.clients[i].since = now
	w.out = w.clients[i].acquire.append(w.out, w.id)
}

// answered takes an answer: to a release, or the grant that a client waited for.
func (w *crowd) answered(payload []byte) error {
	id, code, r, fields, err := wire.DecodeReply(payload)
	if err != nil {
		return err
	}
	if id == 0 {
		switch wire.PushKind(code) {
		case wire.PushQueued:
			w.queued++
		case wire.PushGoodbye:
			return fmt.Errorf("%w: it closes the connection", errRefused)
		}
		return nil
	}
	if err := refusal(code, &r, fields); err != nil {
		return err
	}
	i, acquired := w.about[uint32(id)]
	if !acquired {
		return nil // to a release
	}
	delete(w.about, uint32(id))
	var res wire.Result
	if err := res.Decode(wire.OpAcquire, wire.OK, &r, fields); err != nil {
		return err
	}
	if res.Status != wire.StatusOK {
		return fmt.Errorf("%w: a waiting acquire is %v", errRefused, res.Status)
	}
	c, now := &w.clients[i], time.Now()
	w.done.Add(1)
	if w.measuring.Load() {
		record(w.waited, now.Sub(c.since))
	}
	w.grants = append(w.grants, grant{res.Token, w.first + i})
	w.id++
	w.out = c.release.append(w.out, w.id)
	w.ask(i, now)
	return nil
}
