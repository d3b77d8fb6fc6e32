package pathlockd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// The client in a simulation: several clients with real sessions, deadlines, reconnects and
// cancellations, by the clock of a bubble, against the rules of package engine, through
// proxies that lose one side of a connection, swallow what goes one way, are slow or die. At
// every virtual millisecond who believes in a lock must hold it.

const (
	// seedsVar says how many seeds are to be run, seedVar with which to begin.
	seedsVar = "PATHLOCKD_SEEDS"
	seedVar  = "PATHLOCKD_SEED"
	simSeeds = 6
	// simSpan is how long there is trouble in a run, and simCalm how long there is none
	// after it.
	simSpan = 40 * time.Second
	simCalm = 40 * time.Second
	// simLeft is how long after its end something may be left of what was given back.
	simLeft = 40 * time.Second
)

func TestBeliefInSimulation(t *testing.T) {
	seeds, first := simNumber(t, seedsVar, simSeeds), simNumber(t, seedVar, 1)
	for seed := first; seed < first+seeds; seed++ {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			began := time.Now()
			bubble(t, func(t *testing.T) { simulate(t, uint64(seed)) })
			t.Logf("%v", time.Since(began).Round(time.Millisecond))
		})
		if t.Failed() {
			return
		}
	}
}

func simNumber(t *testing.T, name string, otherwise int) int {
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: must be a number above 0", name, s)
	}
	return n
}

// belief is a lock that somebody has, and may believe in.
type belief struct {
	who    string
	l      *Lock
	ctx    context.Context
	giving bool      // it is being given back; under the lock of the run, as
	lost   bool      // that it is not believed in was seen
	missed time.Time // since when it is not held; likewise

	c    *Client
	sure time.Duration // until when nothing but somebody else may take it away (Client.now); 0: that is not known

	began time.Time // when it was asked for
	of    string    // the name of its client
}

// believed says that its holder goes on.
func (b *belief) believed() bool { return b.l.Err() == nil }

// simRun is one run.
type simRun struct {
	t    *testing.T
	seed uint64
	s    *simServer

	mu      sync.Mutex
	beliefs map[*belief]struct{}
	bonds   map[string]*simBound // by owner
	paths   map[string]bool      // that were asked for
	gave    map[string]time.Time // when an owner's program gave something back by a request of its own
	taken   int
	actors  sync.WaitGroup
	moves   simMoves
	calm    time.Time    // from when on there is no trouble
	woke    atomic.Int64 // when the clients' machines did last, after the start
}

// simGraces and simTTLs are what is drawn from.
var (
	simGraces = []time.Duration{300 * time.Millisecond, time.Second, 2 * time.Second, DefaultGrace}
	simTTLs   = []time.Duration{400 * time.Millisecond, time.Second, 5 * time.Second, 5 * time.Minute}
	simPaths  = []string{"a:/0/x", "a:/0/x/y", "a:/0/z", "a:/1/x", "a:/01/x", "a:/0-2/x", "b:/0/x", "bc:/0/x"}
)

func simulate(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	r := &simRun{
		t: t, seed: seed, s: newSimServer(rnd, 1+rnd.IntN(3)), beliefs: make(map[*belief]struct{}),
		bonds: make(map[string]*simBound),
		paths: make(map[string]bool), gave: make(map[string]time.Time),
	}
	ctx, calm := context.WithTimeout(context.Background(), simSpan)
	defer calm()
	over, end := context.WithTimeout(context.Background(), simSpan+simCalm)
	defer end()
	r.calm = time.Now().Add(simSpan)
	r.moves.draw(r)
	if rnd.IntN(2) == 0 {
		r.s.page = 1 + rnd.IntN(2)
		if r.moves.crowds { // which nobody could look through within the shortest lease
			r.s.page += wire.MaxLeaseAcquires / 2
		}
	}
	clock := func() time.Duration { return time.Since(r.s.start) + time.Hour + time.Duration(r.s.slept.Load()) }
	var clients []*simClient
	for i := range 3 {
		p := &simProxy{
			s: r.s, name: fmt.Sprintf("c%d", i), rnd: rand.New(rand.NewPCG(seed, uint64(100+i))),
			mute: make(map[string]bool), links: make(map[*simLink]struct{}),
		}
		opts := []Option{
			WithDialer(p.dial), WithGrace(r.grace(p)), WithName(p.name),
			WithKeepAlive(5 * time.Second), WithDialTimeout(2 * time.Second), withClock(clock),
		}
		c := &simClient{name: p.name, opts: opts, c: dial(t, r.addresses(), opts...)}
		clients = append(clients, c)
		r.moves.joins(p, nil)
		if r.ends() {
			ends := rand.New(rand.NewPCG(seed, uint64(300+i)))
			r.actors.Go(func() { c.begin(ctx, r, ends) })
		}
		pace := []time.Duration{time.Second, 4 * time.Second, 20 * time.Second}[p.pick(3)]
		r.actors.Go(func() { p.trouble(ctx, pace) })
		for k := range 2 {
			a := &actor{r: r, of: c, c: c.c, rnd: rand.New(rand.NewPCG(seed, uint64(200+10*i+k))),
				name: fmt.Sprintf("c%d.%d", i, k)}
			if k == 0 || seed%2 == 0 { // they share one in every second run
				a.owner = c.owner()
			} else if r.unbound() {
				a.suffix = "-own"
				a.owner = c.owner() + a.suffix
			}
			a.named, a.renews = a.owner != "", r.moves.domains(a.rnd)
			r.moves.joins(p, a)
			r.actors.Go(func() { a.run(over) })
			if a.named && r.moves.gives {
				back := rand.New(rand.NewPCG(seed, uint64(500+10*i+k)))
				r.actors.Go(func() { a.givingBack(ctx, back) })
			}
			if a.named && r.moves.renewing {
				again := rand.New(rand.NewPCG(seed, uint64(400+10*i+k)))
				r.actors.Go(func() { a.renewing(ctx, again) })
			}
		}
	}
	r.s.mu.Lock()
	r.s.behind = r.moves.behind
	r.s.mu.Unlock()
	r.actors.Go(func() { r.upheaval(ctx, rand.New(rand.NewPCG(seed, 1))) })
	r.watch(over)
	r.actors.Wait()
	time.Sleep(simLeft)
	r.nothingLeft("all was given back")
	r.stillBound(clients)
	r.nobodyStuck(clients)
	for _, c := range clients {
		must(t, c.c.Close())
	}
	r.nothingLeft("the clients are closed")
	r.s.mu.Lock()
	nodes := r.s.nodes
	r.s.mu.Unlock()
	for _, n := range nodes {
		n.crash()
	}
	time.Sleep(2 * simSilent)
	if r.taken < 20 {
		t.Errorf("seed %d: %d locks were taken", seed, r.taken)
	}
	t.Logf("seed %d: %d locks were taken", seed, r.taken)
}

func (r *simRun) addresses() string {
	all := make([]string, 0, len(r.s.nodes))
	for _, n := range r.s.nodes {
		all = append(all, n.name+":1")
	}
	return strings.Join(all, ",")
}

// upheaval has nodes come and go, and leaders change.
func (r *simRun) upheaval(ctx context.Context, rnd *rand.Rand) {
	for ctx.Err() == nil {
		select {
		case <-time.After(time.Duration(rnd.Int64N(int64(8 * time.Second)))):
		case <-ctx.Done():
			return
		}
		n := r.s.nodes[rnd.IntN(len(r.s.nodes))]
		what := rnd.IntN(5)
		if r.unbound() && rnd.IntN(2) == 0 {
			what = 3 + rnd.IntN(2)
		}
		switch what {
		case 0:
			n.crash()
			time.Sleep(time.Duration(rnd.Int64N(int64(3 * time.Second))))
			n.restart()
		case 1:
			n.drain()
			time.Sleep(time.Duration(rnd.Int64N(int64(3 * time.Second))))
			n.restart()
		case 2:
			r.s.mu.Lock()
			r.s.elect()
			r.s.mu.Unlock()
			r.s.announce()
		case 3:
			r.s.mu.Lock()
			r.s.refusing, r.s.unsure = rnd.IntN(2) == 0, rnd.IntN(2) == 0
			r.s.slow = time.Duration(rnd.IntN([]int{300, 2000}[rnd.IntN(2)])) * time.Millisecond
			r.s.unbinds = time.Duration(rnd.IntN(2)*rnd.IntN(1000)) * time.Millisecond
			r.s.mu.Unlock()
			time.Sleep(time.Duration(rnd.Int64N(int64(2 * time.Second))))
			r.s.mu.Lock()
			r.s.refusing, r.s.unsure, r.s.slow, r.s.unbinds = false, false, 0, 0
			r.s.mu.Unlock()
		case 4: // the clients' machines sleep
			d := time.Duration(rnd.Int64N(int64([]time.Duration{time.Second, 20 * time.Second}[rnd.IntN(2)])))
			r.s.mu.Lock()
			r.s.note("the machines sleep for %v", d)
			r.s.slept.Add(int64(d))
			r.s.mu.Unlock()
			r.woke.Store(int64(time.Since(r.s.start)))
		}
	}
}

// watch asks at every millisecond who believes.
func (r *simRun) watch(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(time.Millisecond)
		if now := time.Since(r.s.start); now > lookEvery && now-time.Duration(r.woke.Load()) < lookEvery/2 {
			continue // nobody has asked yet what was slept through
		}
		r.mu.Lock()
		for b := range r.beliefs {
			if !b.believed() {
				// Where goroutines share an owner, another one of its locks may have been given back, and the path with
				// it.
				alone := r.seed%2 == 1 || errors.Is(b.l.Err(), ErrUncertain)
				if r.quiet() && !b.giving && !b.lost && alone {
					r.wrong("nothing is wrong for long, and %s has lost %v of %s (TTL %v): %v",
						b.who, b.l.paths, b.l.owner, b.l.ttl, b.l.Err())
				}
				left := b.sure - b.c.now()
				if errors.Is(b.l.Err(), ErrUncertain) && !b.giving && !b.lost && left > 0 && !r.killed(b, simToldLate) {
					r.wrong("%s has lost %v of %s (TTL %v), which lasts for %v more by the request that took it: %v",
						b.who, b.l.paths, b.l.owner, b.l.ttl, left, b.l.Err())
				}
				b.lost = true
				continue
			}
			for i, p := range b.l.paths {
				if i > 0 && i < len(b.l.paths)-1 { // of a crowd
					continue
				}
				if !r.s.holds(b.l.owner, p) && b.believed() && !r.unaware(b) && !r.given(b) {
					r.fail(b, p)
					r.mu.Unlock()
					return
				}
			}
		}
		r.mu.Unlock()
	}
}

// fail tells what went wrong, once.
func (r *simRun) fail(b *belief, p Path) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	res := r.s.state.View().Inspect(r.s.routes.Resolve(p.Path), p.Path)
	notes := r.s.notes[max(0, len(r.s.notes)-60):]
	r.t.Errorf("seed %d, after %v: %s believes in %s of %s (TTL %v) for %v more; it is held by %q\n%s", r.seed,
		time.Since(r.s.start), b.who,
		p.Path, b.l.owner, b.l.ttl, time.Until(b.l.Deadline()), res.Owner, strings.Join(notes, "\n"))
}

// actor is a program's goroutine that takes locks and gives them back.
type actor struct {
	r      *simRun
	of     *simClient
	c      *Client // of it, as far as it has noticed
	rnd    *rand.Rand
	name   string
	owner  string // "": one for each lock
	suffix string // of it
	named  bool   // it is not one for each lock
	// where the program renews it besides: namespaces, paths in them and handlers, or "" for all there are
	renews []string
	held   []*belief
}

func (a *actor) draw(most time.Duration) time.Duration {
	return time.Duration(a.rnd.Int64N(int64(most)))
}

func (a *actor) run(ctx context.Context) {
	for ctx.Err() == nil {
		a.follow()
		switch n := a.rnd.IntN(10); {
		case n < 5 && len(a.held) < 2, n < 6 && len(a.held) < 4 && a.r.several():
			a.take(ctx)
		case n < 7 && a.owner != "" && a.rnd.IntN(2) == 0 && !a.r.unbound():
			a.tie(ctx)
		case n < 8:
			time.Sleep(a.draw([]time.Duration{10 * time.Millisecond, time.Second, 4 * time.Second}[a.rnd.IntN(3)]))
		case len(a.held) > 0:
			a.give(a.rnd.IntN(len(a.held)))
		}
	}
	for len(a.held) > 0 {
		a.give(0)
	}
}

// take takes one more lock, on a path that does not touch what it has.
func (a *actor) take(ctx context.Context) {
	path := simPaths[a.rnd.IntN([]int{4, len(simPaths)}[a.rnd.IntN(2)])]
	if a.r.several() && a.rnd.IntN(2) == 0 { // that nobody else wants: its owner has several locks more often
		path = fmt.Sprintf("a:/0/%s-%c", a.name, "anz"[a.rnd.IntN(3)]) // before and behind what a crowd is called
	}
	several := a.several()
	if a.r.moves.crowds && a.rnd.IntN(3) > 0 {
		several = crowd(a.name)
	}
	if a.touches(path) || a.touches(several[0].Path) || a.touches(several[1].Path) {
		return
	}
	ttl, began, asked := a.r.ttl(a.rnd), a.c.now(), time.Now()
	opts := []LockOption{TTL(ttl)}
	if a.owner != "" {
		opts = append(opts, Owner(a.owner))
	}
	waits := []time.Duration{20 * time.Millisecond, time.Second, 10 * time.Second}
	short, cancel := context.WithTimeout(ctx, a.draw(waits[a.rnd.IntN(len(waits))]))
	defer cancel()
	if a.rnd.IntN(3) == 0 { // and takes long to tell somebody that it waits
		opts = append(opts, OnQueued(func(Queued) { pauseFor(short, a.draw(3*time.Second)) }))
	}
	var l *Lock
	var err error
	what := a.rnd.IntN(6)
	wants := []Path{{Path: path}}
	if what == 2 || what == 3 {
		wants = several
	}
	a.r.asks(wants)
	switch what {
	case 0:
		l, err = a.c.TryLock(short, path, opts...)
	case 1:
		l, err = a.c.RLock(short, path, opts...)
	case 2:
		l, err = a.c.LockAll(short, several, opts...)
	case 3:
		l, err = a.c.TryLockAll(short, several, opts...)
	default:
		l, err = a.c.Lock(short, path, opts...)
	}
	a.r.inTime(short, "a lock")
	lasts := a.r.unbound() && !a.r.moves.gives && !a.r.s.within(wants[0].Path, a.renews)
	if took := a.c.now() - began; lasts && errors.Is(err, ErrUncertain) && took < ttl*2/renewAt {
		a.r.wrong("%s could not take %v for %v within %v: %v", a.name, wants[0].Path, ttl, took, err)
	}
	if err != nil {
		return
	}
	b := &belief{who: a.name, l: l, ctx: l.Context(), c: a.c, began: asked, of: a.of.name}
	if lasts && ttl <= DefaultGrace/3 { // a grace ends none before its time
		b.sure = began + ttl - margin(ttl)
	}
	a.held = append(a.held, b)
	a.r.mu.Lock()
	a.r.beliefs[b] = struct{}{}
	a.r.taken++
	a.r.mu.Unlock()
}

// touches says that a path lies over or under one that the actor has.
func (a *actor) touches(path string) bool {
	for _, b := range a.held {
		for _, p := range b.l.paths {
			if strings.HasPrefix(path, p.Path) || strings.HasPrefix(p.Path, path) {
				return true
			}
		}
	}
	return false
}

// give gives a lock back.
func (a *actor) give(i int) {
	b := a.held[i]
	a.held = append(a.held[:i], a.held[i+1:]...)
	a.r.mu.Lock()
	b.giving = true
	a.r.mu.Unlock()
	short, cancel := context.WithTimeout(context.Background(), a.draw(200*time.Millisecond))
	defer cancel()
	if a.rnd.IntN(2) == 0 {
		_ = b.l.Unlock()
	} else {
		_ = b.l.UnlockContext(short)
		a.r.inTime(short, "UnlockContext")
	}
	a.r.mu.Lock()
	delete(a.r.beliefs, b)
	a.r.mu.Unlock()
}
