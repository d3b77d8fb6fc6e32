package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/check"
	"github.com/pathlockd/pathlockd/bench/lab/cluster"
	"github.com/pathlockd/pathlockd/bench/lab/history"
	"github.com/pathlockd/pathlockd/bench/session"
	"github.com/pathlockd/pathlockd/wire"
)

// episode is one episode under way.
type episode struct {
	cfg         *Config
	number      int
	cluster     cluster.Cluster
	ctx         context.Context
	drained     context.Context // ends when nobody may wait any longer
	rec         *history.Recorder
	spaces      []space
	resource    *resource
	owners      owners
	when        atomic.Int64 // it settled, 0 before that
	faultCounts map[string]int
	struck      int          // faults
	beats       atomic.Int64 // pulses
	resumed     []Resumed
	beating     beating
	calmed      time.Duration // when what the fault under way did was taken back, 0: not yet
	listener    *listener
	ballast     *ballast // nil: there is none
}

// owners is who the clients are at the moment.
type owners struct {
	mu   sync.Mutex
	name map[int]string
	in   map[int][]int // their namespaces
}

func (o *owners) set(client int, owner string, in ...int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.name == nil {
		o.name, o.in = make(map[int]string), make(map[int][]int)
	}
	o.name[client], o.in[client] = owner, in
}

func (o *owners) get(client int) (string, []int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.name[client], o.in[client]
}

func (e *episode) settled() time.Duration { return time.Duration(e.when.Load()) }
func (e *episode) settling() bool         { return e.when.Load() != 0 || e.ctx.Err() != nil }

// runEpisode plays one episode and answers what was seen. An error says that the cluster
// does not come back, or that the run is over.
func runEpisode(ctx context.Context, cfg *Config, c cluster.Cluster, b *ballast, number,
	faultCount int) (*history.History, *episode, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	drained, drain := context.WithCancel(ctx)
	defer drain()
	e := &episode{
		cfg: cfg, number: number, cluster: c, ctx: ctx, drained: drained, rec: history.NewRecorder(),
		spaces:      spacesOf(number),
		faultCounts: make(map[string]int), struck: faultCount, ballast: b,
	}
	e.resource = newResource(e.rec)
	if err := e.found(); err != nil {
		return nil, e, err
	}
	e.listener = e.listen()
	var clients sync.WaitGroup
	for i := range cfg.Clients {
		clients.Go((&client{e: e, number: i}).run)
	}
	if cfg.Sit {
		clients.Go(func() { e.sit(cfg.Clients) })
	}
	if b != nil {
		clients.Go(e.probe)
	}
	seen, stop := context.WithCancel(ctx)
	defer stop()
	var beats sync.WaitGroup
	beats.Go(func() { e.beat(seen) })
	err := e.strike()
	stop()
	beats.Wait()
	if err != nil {
		cancel()
		clients.Wait()
		e.listener.finish(false)
		return e.rec.History(), e, err
	}
	e.rec.Settle()
	e.when.Store(int64(e.rec.Now()))
	late := time.AfterFunc(stuckAfter, drain)
	defer late.Stop()
	clients.Wait()
	if c.Can(cluster.Grow) {
		err = e.placed()
	}
	e.listener.finish(err == nil)
	if err == nil {
		e.observe()
		err = e.compare()
	}
	return e.rec.History(), e, err
}

// found sets the rules of the episode's namespaces.
func (e *episode) found() error {
	c := &client{e: e, number: -1, s: session.New()}
	defer c.hangUp()
	for i, s := range e.spaces {
		if s.permits == 0 {
			continue
		}
		c.turn = turn{space: i}
		op := c.op(history.SetPolicy)
		op.Owner, op.Algorithm = "", wire.Semaphore
		o := c.do(op, &wire.Request{Op: wire.OpSetPolicy, Namespace: s.name, Algorithm: wire.Semaphore})
		if o.Outcome != history.Answered {
			return fmt.Errorf("episode %d: set the rules of %s: %v %v", e.number, s.name, o.Outcome, o.Code)
		}
	}
	return nil
}

// observe looks at every path, through every node.
func (e *episode) observe() {
	for node := range e.cluster.Nodes() {
		c := &client{e: e, number: -1 - node, node: node, s: session.New()}
		for i, s := range e.spaces {
			for _, p := range s.paths {
				c.turn = turn{space: i}
				c.look(p)
			}
		}
		c.hangUp()
	}
}

// compare takes digests until all replicas were seen at the same places.
func (e *episode) compare() error {
	if !e.cluster.Can(cluster.Compare) || e.cluster.Nodes() < 2 {
		return e.ctx.Err()
	}
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	late := time.NewTimer(healWithin)
	defer late.Stop()
	for {
		digests := e.cluster.Digests()
		e.rec.Digests(digests)
		if level(digests) {
			return e.ctx.Err()
		}
		select {
		case <-e.ctx.Done():
			return e.ctx.Err()
		case <-late.C:
			return fmt.Errorf("%w: after %v the replicas of some log do not stand at the same place: %v", errNotHealed,
				healWithin, digests)
		case <-again.C:
		}
	}
}

// level says that all replicas of each log stand at the same place.
func level(digests []history.Digest) bool {
	at := make(map[uint64]uint64)
	for _, d := range digests {
		if i, ok := at[d.Log]; ok && i != d.Index {
			return false
		}
		at[d.Log] = d.Index
	}
	return true
}

// judge checks a history.
func judge(h *history.History) check.Result { return check.Check(h, checkWithin) }

var errNotHealed = errors.New("the cluster does not come back")
