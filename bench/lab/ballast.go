package lab

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/cluster"
	"github.com/pathlockd/pathlockd/bench/session"
	"github.com/pathlockd/pathlockd/wire"
)

const (
	// Ballast is how many locks a run has below one path that nobody must pay for.
	Ballast = 20_000
	// locksEach is how many of them a request takes, and locksAWaiter how many there are
	// for each waiter at one mutex.
	locksEach    = 500
	locksAWaiter = 4
	// littleLocks and littleWaiters are there where there is little: as many as a page shows.
	littleLocks, littleWaiters = page, page
	// loaders load at once.
	loaders = 16
	// loadWithin is how long the first load may take before the run goes on without.
	loadWithin = time.Minute
)

// ballast is two namespaces that are the same but for how much is in them: thousands of
// locks below a path, of waiters at a mutex and of owners, or a few. It outlives episodes
// and faults, and is loaded again when a restore may have lost some of it.
type ballast struct {
	cfg          *Config
	cluster      cluster.Cluster
	much, little hoard
	restores     atomic.Int64 // of the run
	loaded       atomic.Int64 // restores before the last load, -1: there was none
}

// hoard is what one of the namespaces has.
type hoard struct {
	name           string
	locks, waiters int
}

// layouts are the numbers of groups and logs that clusters have: those of Nodes, and those
// of processes.
var layouts = [...][2]int{{16, 4}, {256, 16}}

// newBallast makes one that is not loaded, nil if the run is to have none.
func newBallast(cfg *Config, c cluster.Cluster) *ballast {
	if cfg.Ballast == 0 {
		return nil
	}
	b := &ballast{cfg: cfg, cluster: c}
	b.loaded.Store(-1)
	b.much = hoard{"ballast:/much", cfg.Ballast, cfg.Ballast / locksAWaiter}
	b.little = hoard{twin(b.much.name), littleLocks, littleWaiters}
	return b
}

// twin is a namespace in the same log as another, so that the two have the same leader and
// the same disks, and in a group of its own.
func twin(name string) string {
	for i := 0; ; i++ {
		other, good := fmt.Sprintf("ballast:/little%d", i), true
		for _, l := range layouts {
			a, b := int(wire.GroupOf(name, l[0])), int(wire.GroupOf(other, l[0]))
			good = good && a != b && a%l[1] == b%l[1]
		}
		if good {
			return other
		}
	}
}

// whole says that all of it is in the cluster that there is.
func (b *ballast) whole() bool { return b.loaded.Load() == b.restores.Load() }

// loadFirst loads it before anything happens to the cluster. When that takes too long the
// run goes on, and so does the prober with the loading.
func (b *ballast) loadFirst(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, loadWithin)
	defer cancel()
	began := time.Now()
	b.load(ctx, func() bool { return false })
	b.cfg.Logf("%d locks and %d waiters are there (%v) after %v", b.much.locks, b.much.waiters, b.whole(),
		time.Since(began).Round(time.Millisecond))
}

// load takes what is not there, and confirms what is, until all is or nobody needs it any
// more.
func (b *ballast) load(ctx context.Context, enough func() bool) {
	restores := b.restores.Load()
	for _, stage := range [][]*wire.Request{
		append(b.much.held(), b.little.held()...), append(b.much.waiting(), b.little.waiting()...),
	} {
		if !b.carry(ctx, stage, enough) {
			return
		}
	}
	b.loaded.Store(restores)
}

// carry has requests carried out, in any order.
func (b *ballast) carry(ctx context.Context, list []*wire.Request, enough func() bool) bool {
	var next atomic.Int64
	var all sync.WaitGroup
	for i := range loaders {
		all.Go(func() {
			a := &asker{cluster: b.cluster, s: session.New(), node: i}
			defer a.hangUp()
			for n := next.Add(1) - 1; n < int64(len(list)); {
				if ctx.Err() != nil || enough() {
					return
				}
				res, err := a.ask(ctx, list[n])
				if err == nil && res.Status == wanted(list[n]) {
					n = next.Add(1) - 1
					continue
				}
				select {
				case <-ctx.Done():
				case <-time.After(reconnect):
				}
			}
		})
	}
	all.Wait()
	return ctx.Err() == nil && !enough()
}

// wanted is the status of a request of the ballast's that was carried out: those that may
// wait do.
func wanted(req *wire.Request) wire.Status {
	if req.Op == wire.OpAcquire && req.Flags&wire.FlagNoQueue == 0 {
		return wire.StatusQueued
	}
	return wire.StatusOK
}

// take asks for paths at once and for as long as can be.
func take(owner string, paths ...string) *wire.Request {
	req := &wire.Request{Op: wire.OpAcquire, Owner: owner, TTLMillis: wire.MaxTTLMillis,
		QueueTTLMillis: wire.MaxTTLMillis, Flags: wire.FlagNoQueue}
	for _, p := range paths {
		req.Locks = append(req.Locks, wire.LockRequest{Path: p})
	}
	return req
}

// queue asks for paths that somebody has, and waits for them: the same, asked again.
func queue(owner string, paths ...string) *wire.Request {
	req := take(owner, paths...)
	req.Flags = 0
	return req
}

func free(owner string, paths ...string) *wire.Request {
	req := &wire.Request{Op: wire.OpRelease, Owner: owner}
	for _, p := range paths {
		req.Releases = append(req.Releases, wire.ReleaseRequest{Path: p})
	}
	return req
}

const (
	holder = "ballast.holder" // of the locks and of the mutex
	passer = "ballast.passer" // who has nothing to do with them
)

// slope lists paths from the top of the tree down, one below the other. All locks are below
// the last.
func (h hoard) slope() (paths []string) {
	p := h.name + "/t"
	for range depth {
		paths = append(paths, p)
		p += "/d"
	}
	return paths
}

func (h hoard) mutex() string { return h.name + "/m" }

// held takes the mutex and the locks.
func (h hoard) held() (list []*wire.Request) {
	list = append(list, take(holder, h.mutex()))
	slope := h.slope()
	bottom := slope[len(slope)-1]
	var paths []string
	for i := range h.locks {
		if paths = append(paths, fmt.Sprintf("%s/%02d/%d", bottom, i%64, i)); len(paths) == locksEach ||
			i == h.locks-1 {
			list, paths = append(list, take(holder, paths...)), nil
		}
	}
	return list
}

// seen says whether a look at the mutex or at the tree shows all that is there.
func (h hoard) seen(path string, res *wire.Result) error {
	locks := 0
	if res.List != nil {
		locks = int(res.List.Count2)
	}
	if waits := int(res.Count); path == h.mutex() && waits < h.waiters || path != h.mutex() && locks < h.locks {
		return fmt.Errorf("%w: at %s wait %d owners, and below it are %d locks", errNotWhole, path, waits, locks)
	}
	return nil
}

// waiting lets owners wait for the mutex.
func (h hoard) waiting() (list []*wire.Request) {
	for i := range h.waiters {
		list = append(list, queue(fmt.Sprintf("ballast.%d", i), h.mutex()))
	}
	return list
}

// asker asks one node after another, until one answers.
type asker struct {
	cluster cluster.Cluster
	s       *session.Session
	node    int
	conn    cluster.Conn
}

func (a *asker) hangUp() {
	if a.conn != nil {
		a.conn.Close()
		a.conn = nil
	}
}

func (a *asker) dial(ctx context.Context) (err error) {
	if a.conn == nil {
		a.conn, err = a.cluster.Dial(ctx, a.node%a.cluster.Nodes(), a.s)
	}
	return err
}

// ask asks once, and of another node the next time if there was no good answer.
func (a *asker) ask(ctx context.Context, req *wire.Request) (*wire.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	err := a.dial(ctx)
	var res *wire.Result
	if err == nil {
		if res, err = a.conn.Ask(ctx, a.s.Next(), req, nil); err == nil && res.Err() != nil {
			err = res.Err()
		}
	}
	if err != nil {
		a.hangUp()
		a.node++
	}
	return res, err
}
