package pathlockd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

const (
	ownSeeds = 30
	// ownSpan is how long what is asked in a run goes on.
	ownSpan = 90 * time.Second
	// ownLate is until when what nobody knows of is carried out at last.
	ownLate = 20 * time.Second
	// ownSure is for how long a lock may count as held that its owner does not hold any more.
	ownSure = askedWithin + 300*time.Millisecond
)

var ownPaths = []string{"a:/b/1", "a:/b/2", "a:/b/3", "a:/q/1", "a:/q/2"}

// TestOwnRequestsInSimulation: goroutines of a program share an owner, and take its paths and give them back by locks
// and by requests of their own, beside a rival and at a server that carries out what is not ordered in any order. No
// lock counts as held for long that its owner does not hold, the one that nobody gives back is never lost, and in the
// end nothing is left. PATHLOCKD_SEEDS says how many seeds are run, and PATHLOCKD_SEED which one is the first.
func TestOwnRequestsInSimulation(t *testing.T) {
	seeds, first := simNumber(t, seedsVar, ownSeeds), simNumber(t, seedVar, 1)
	for seed := first; seed < first+seeds && !t.Failed(); seed++ {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) { newOwnRun(t, uint64(seed)).run() })
		})
	}
}

// ownRun is one run.
type ownRun struct {
	t     *testing.T
	seed  uint64
	c     *Client
	s     *timed
	end   time.Time
	taken int // locks

	mu    sync.Mutex
	locks map[*Lock]time.Time // what is believed in, and since when its owner does not hold it
}

func newOwnRun(t *testing.T, seed uint64) *ownRun {
	c, s := newTimed(t)
	s.takes(unordered(s.routes, rand.New(rand.NewPCG(seed, 1))))
	return &ownRun{t: t, seed: seed, c: c, s: s, end: time.Now().Add(ownSpan), locks: make(map[*Lock]time.Time)}
}

// unordered is a pace that keeps the order which PROTOCOL.md promises, that of the requests in one namespace, and no
// other. Of some releases that the program asks for, which name no token, nobody knows what becomes of them.
func unordered(routes *wire.Routes, rnd *rand.Rand) pace {
	busy := make(map[string]time.Time) // until when the last one in a namespace is carried out
	draw := func(most time.Duration) time.Duration { return 1 + time.Duration(rnd.Int64N(int64(most))) }
	return func(req *wire.Request) (time.Duration, bool) {
		own := req.Op == wire.OpRelease && req.Token == 0 && req.Releases[0].Mode == wire.ModeWrite
		if own && rnd.IntN(20) == 0 {
			return draw(ownLate), true
		}
		d := draw(60 * time.Millisecond)
		ns := namespaceAsked(routes, req)
		switch {
		case req.Op == wire.OpRenew && len(req.Domains) == 1:
			ns = req.Domains[0]
		case ns == "" && rnd.IntN(4) == 0:
			return draw(300 * time.Millisecond), false
		case ns == "":
			return d, false
		}
		at := time.Now().Add(d)
		if !at.After(busy[ns]) {
			at = busy[ns].Add(time.Microsecond)
		}
		busy[ns] = at
		return time.Until(at), false
	}
}

func (r *ownRun) run() {
	t := r.t
	kept, err := r.c.Lock(context.Background(), "a:/b/kept", Owner("me"), TTL(20*time.Minute))
	mustLock(t, kept, err)
	over := make(chan struct{})
	defer close(over)
	go r.watch(over)
	var actors sync.WaitGroup
	for k := range uint64(4) {
		actors.Go(func() { r.act(rand.New(rand.NewPCG(r.seed, 10+k))) })
	}
	actors.Go(func() { r.compete(rand.New(rand.NewPCG(r.seed, 2))) })
	actors.Wait()
	pass(10 * time.Second)
	if err := kept.Err(); err != nil {
		r.wrong("nobody gave it back, and it is lost: %v", err)
	}
	_ = kept.Unlock()
	pass(70 * time.Second)
	r.s.mu.Lock()
	left := r.s.state.View().Owned("me", nil, engine.Owned{}, 0)
	r.s.mu.Unlock()
	if len(left) > 0 {
		r.wrong("all was given back, and it is held: %v", left)
	}
	if r.taken < 10 {
		r.wrong("%d locks were taken", r.taken)
	}
	r.s.takes(nil)
	must(t, r.c.Close())
}

// wrong tells what went wrong.
func (r *ownRun) wrong(format string, args ...any) {
	r.t.Errorf("seed %d, after %v: %s\n%s", r.seed, time.Since(r.s.start), fmt.Sprintf(format, args...), r.s.happened())
}

// watch asks again and again who believes.
func (r *ownRun) watch(over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-time.After(20 * time.Millisecond):
		}
		r.mu.Lock()
		for l, since := range r.locks {
			switch held := r.s.holds(l.Owner(), l.Paths()[0]); {
			case held || l.Err() != nil:
				r.locks[l] = time.Time{}
			case since.IsZero():
				r.locks[l] = time.Now()
			case time.Since(since) > ownSure:
				r.wrong("the lock on %v, token %d, counts as held, and has not been for %v",
					l.Paths(), l.Token(), time.Since(since))
				delete(r.locks, l)
			}
		}
		r.mu.Unlock()
	}
}

// act is one goroutine of the program.
func (r *ownRun) act(rnd *rand.Rand) {
	draw := func(most time.Duration) time.Duration { return time.Duration(rnd.Int64N(int64(most))) }
	for time.Now().Before(r.end) {
		p := Path{Path: ownPaths[rnd.IntN(len(ownPaths))], Mode: Mode(rnd.IntN(2))}
		back := []wire.ReleaseRequest{{Path: p.Path, Mode: p.Mode}}
		release := &wire.Request{Op: wire.OpRelease, Owner: "me", Releases: back}
		take := &wire.Request{
			Owner: "me", TTLMillis: millis(20 * time.Minute), Flags: wire.FlagNoQueue,
			Locks: []wire.LockRequest{{Path: p.Path, Mode: p.Mode}},
		}
		ctx, leave := context.WithTimeout(context.Background(), time.Millisecond+draw(3*time.Second))
		switch rnd.IntN(10) {
		case 0, 1, 2, 3:
			r.lock(ctx, rnd, p)
		case 4: // takes it by a request, and gives it back
			if rnd.IntN(3) == 0 {
				take.Flags = wire.FlagWait
			}
			if _, err := r.c.Acquire(ctx, take); err == nil || take.Flags != wire.FlagWait {
				time.Sleep(draw(time.Second))
				r.giveBack(back)
			}
		case 5:
			_ = r.c.Release(ctx, "me", back, false, "")
		case 6, 7: // gives it back with something that is taken
			take.Locks = []wire.LockRequest{{Path: "a:/b/kept"}}
			take.Releases = []wire.ReleaseRequest{{Path: ownPaths[rnd.IntN(3)], Mode: Mode(rnd.IntN(2))}}
			wanted := wire.LockRequest{Path: ownPaths[rnd.IntN(3)]}
			if how := rnd.IntN(3); how > 0 && wanted.Path != take.Releases[0].Path {
				take.Locks[0] = wanted
				take.Flags = []wire.Flags{0, 0, wire.FlagWait}[how]
				take.QueueTTLMillis = millis(5 * time.Second)
			}
			if _, err := r.c.Acquire(ctx, take); take.Locks[0] == wanted && (err == nil || take.Flags == 0) {
				time.Sleep(6 * time.Second) // it has no place in the queue any more
				r.giveBack([]wire.ReleaseRequest{{Path: wanted.Path}})
			}
		case 8: // adds it to a batch long before that is sent
			b := r.c.Batch()
			must(r.t, b.Add(release, nil))
			time.Sleep(draw(3 * time.Second))
			must(r.t, b.Send(context.Background()))
		case 9:
			if rnd.IntN(3) == 0 {
				_ = r.c.ReleaseAll(ctx, "me", false, "", "a:/q")
			}
		}
		leave()
		time.Sleep(draw(1500 * time.Millisecond))
	}
}

// lock takes a lock, and gives it back.
func (r *ownRun) lock(ctx context.Context, rnd *rand.Rand, p Path) {
	opts := []LockOption{Owner("me"), TTL(20 * time.Minute)}
	if rnd.IntN(5) == 0 {
		opts = nil
	}
	lockAll := r.c.LockAll
	if rnd.IntN(2) == 0 {
		lockAll = r.c.TryLockAll
	}
	l, err := lockAll(ctx, []Path{p}, opts...)
	if err != nil {
		return
	}
	r.mu.Lock()
	r.locks[l] = time.Time{}
	r.taken++
	r.mu.Unlock()
	time.Sleep(time.Duration(rnd.IntN(5000)) * time.Millisecond)
	_ = l.Unlock()
	r.mu.Lock()
	delete(r.locks, l)
	r.mu.Unlock()
}

// giveBack gives back what was taken by a request. That nobody knows what becomes of it is as good.
func (r *ownRun) giveBack(paths []wire.ReleaseRequest) {
	if err := r.c.Release(context.Background(), "me", paths, false, ""); err != nil &&
		!errors.Is(err, ErrOutcomeUnknown) {
		r.t.Error(err)
	}
}

// compete has a rival take and give back paths.
func (r *ownRun) compete(rnd *rand.Rand) {
	for time.Now().Before(r.end) {
		p := ownPaths[rnd.IntN(len(ownPaths))]
		if r.s.rival(p) {
			time.Sleep(time.Duration(rnd.IntN(1500)) * time.Millisecond)
			r.s.rivalGives(p)
		}
		time.Sleep(time.Duration(rnd.IntN(300)) * time.Millisecond)
	}
}
