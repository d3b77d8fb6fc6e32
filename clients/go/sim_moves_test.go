package pathlockd

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// What comes right behind something else: a kill behind a grant, silence behind a kill, a renewal of the program's own
// behind a hello. By chance alone that hardly ever happens, and it is where errors are. And what programs renew
// besides.

// simMoment is what something may come right behind.
type simMoment int

const (
	simHello simMoment = iota
	simGranted
	simRenewed
	simReleased
	simKilled
	numMoments
)

// simMoves is what is likely in a run, which differs from run to run: each has some of it often and others never.
type simMoves struct {
	r        *simRun
	rates    [numMoments]int // one of so many moments has something come behind it; 0: none
	weights  []int           // of simAfter
	renewing bool            // programs renew their owners all the time
	several  bool            // they have several locks at once
	crowds   bool            // some of them of many paths
	two      bool            // they last for very short or very long
	lasting  int             // for how long programs renew: hardly more than the way takes, as locks last, or either
	kills    bool            // somebody takes everything away from an owner
	gives    bool            // programs give back what locks hold by requests of their own

	mu     sync.Mutex
	actors map[string][]*actor // by client
	links  map[string]*simProxy
}

// simAfter are what may come behind a moment, on a connection. Called under the server's lock.
var simAfter = []func(m *simMoves, c *simConn, owner string){
	func(m *simMoves, c *simConn, owner string) {
		if m.kills {
			m.kill(m.owner(c, owner))
		}
	},
	func(m *simMoves, c *simConn, _ string) { m.fault(c) },
	func(m *simMoves, c *simConn, _ string) {
		d := time.Duration(m.r.s.rnd.IntN([]int{1000, 4000, 12_000}[m.r.s.rnd.IntN(3)])) * time.Millisecond
		m.r.s.note("%s does not get to the logs for %v", c.n.name, d)
		c.n.stalls = time.Now().Add(d)
	},
	func(m *simMoves, c *simConn, owner string) { m.renew(c, owner) },
	func(m *simMoves, _ *simConn, _ string) { m.refuse() },
}

// draw draws what a run has.
func (m *simMoves) draw(r *simRun) {
	rnd := rand.New(rand.NewPCG(r.seed, 2))
	m.r, m.actors, m.links = r, make(map[string][]*actor), make(map[string]*simProxy)
	for i := range m.rates {
		m.rates[i] = []int{0, 3, 20, 100}[rnd.IntN(4)]
	}
	for range simAfter {
		m.weights = append(m.weights, rnd.IntN(4))
	}
	m.renewing, m.several, m.kills = rnd.IntN(2) == 0, rnd.IntN(3) > 0, rnd.IntN(2) == 0
	m.crowds, m.two, m.lasting = r.several() && rnd.IntN(2) == 0, rnd.IntN(2) == 0, rnd.IntN(3)
	m.gives = rnd.IntN(3) == 0
}

// several says that an actor has several locks at once, some of many paths.
func (r *simRun) several() bool { return r.unbound() || r.moves.several }

// joins takes note of a client's proxy and of an actor of it.
func (m *simMoves) joins(p *simProxy, a *actor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.links[p.name] = p
	if a != nil {
		m.actors[p.name] = append(m.actors[p.name], a)
	}
}

// behind has something come behind a moment, or several things. Called under the server's lock.
func (m *simMoves) behind(what simMoment, c *simConn, owner string) {
	rnd := m.r.s.rnd
	if m.rates[what] == 0 || rnd.IntN(m.rates[what]) > 0 || time.Now().After(m.r.calm) {
		return
	}
	for range 1 + rnd.IntN(4) {
		total := 0
		for _, w := range m.weights {
			total += w
		}
		if total == 0 {
			return
		}
		n := rnd.IntN(total)
		for i, w := range m.weights {
			if n -= w; n < 0 {
				simAfter[i](m, c, owner)
				break
			}
		}
	}
}

// owner is one to whom something happens: whom the moment is about, or one of the client's.
func (m *simMoves) owner(c *simConn, owner string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.actors[c.hello.Client]
	if owner != "" || len(all) == 0 {
		return owner
	}
	a := all[m.r.s.rnd.IntN(len(all))]
	return a.of.owner() + a.suffix
}

// kill takes everything away from an owner.
func (m *simMoves) kill(owner string) {
	s := m.r.s
	s.note("%q is killed", owner)
	s.kills = append(s.kills, &simKill{owner: owner, at: time.Now()})
	at := s.clock()
	s.state.Apply(at, &engine.Command{Req: &wire.Request{Op: wire.OpForceRelease, Owner: owner}}, &s.out)
	s.told()
}

// fault does something to the way of a client, at once or a little later.
func (m *simMoves) fault(c *simConn) {
	m.mu.Lock()
	p := m.links[c.hello.Client]
	m.mu.Unlock()
	rnd := m.r.s.rnd
	f := &faults[rnd.IntN(len(faults))]
	switch rnd.IntN(3) {
	case 0:
		f = &faults[0] // all come back at once
	case 1:
		f = &faults[firstSilence+rnd.IntN(3)]
	}
	late := time.Duration(rnd.IntN([]int{1, 5, 100}[rnd.IntN(3)])) * time.Millisecond
	m.r.s.note("in %v the proxy of %s %s", late, p.name, f.name)
	time.AfterFunc(late, func() { f.do(p) })
}

// firstSilence is the first of the three faults that swallow what goes one way, or both.
var firstSilence = slices.IndexFunc(faults, func(f struct {
	name string
	do   func(p *simProxy)
}) bool {
	return f.name == "swallows what goes to the servers"
})

// renew has a program renew its owners.
func (m *simMoves) renew(c *simConn, owner string) {
	m.mu.Lock()
	all := m.actors[c.hello.Client]
	m.mu.Unlock()
	seed := m.r.s.rnd.Uint64()
	for i, a := range all {
		if !a.named {
			continue
		}
		rnd := rand.New(rand.NewPCG(seed, uint64(i)))
		m.r.actors.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rnd.IntN(2000))*time.Millisecond)
			defer cancel()
			a.renewOnce(ctx, a.renews[rnd.IntN(len(a.renews))], simOwnTTL(a.r, rnd), 0)
		})
	}
}

// refuse has the logs refuse some of what they are asked, for a while.
func (m *simMoves) refuse() {
	s := m.r.s
	percent := []int{30, 100}[s.rnd.IntN(2)]
	what := max(0, s.rnd.IntN(6)-2)
	s.note("of %d a part is refused: %d %%", what, percent)
	refuses := func(req *wire.Request) bool {
		var is bool
		switch what {
		case 0:
			is = req.Op == wire.OpRenew && req.Flags&wire.FlagExtend == 0
		case 1:
			is = req.Op == wire.OpRenew
		case 2:
			is = req.Op == wire.OpRenew || req.Op == wire.OpAcquire
		default:
			is = req.Op != wire.OpCancel
		}
		return is && s.rnd.IntN(100) < percent
	}
	s.picky = refuses
	time.AfterFunc(time.Duration(s.rnd.IntN([]int{100, 3000}[s.rnd.IntN(2)]))*time.Millisecond, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.picky = nil
	})
}

// moment says that there was one. Called under the lock.
func (s *simServer) moment(what simMoment, c *simConn, owner string) {
	if s.behind != nil {
		s.behind(what, c, owner)
	}
}

// then has something come behind what was answered.
func (s *simServer) then(c *simConn, req *wire.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch req.Op {
	case wire.OpAcquire:
		s.moment(simGranted, c, req.Owner)
	case wire.OpRenew:
		s.moment(simRenewed, c, req.Owner)
	case wire.OpRelease:
		s.moment(simReleased, c, req.Owner)
	}
}

// simRoots are namespaces of their own: one is a whole handler.
var simRoots = []string{"b"}

// resolved is a request with its domains as package engine takes them.
func (s *simServer) resolved(req *wire.Request) *wire.Request {
	if len(req.Domains) == 0 {
		return req
	}
	own := *req
	own.Domains = nil
	for _, d := range req.Domains {
		own.Domains = append(own.Domains, s.domain(d))
	}
	return &own
}

func (s *simServer) domain(d string) string {
	if !strings.Contains(d, ":") {
		return d + ":"
	}
	return s.routes.Resolve(d)
}

// within says that what is about one of some domains is about a path.
func (s *simServer) within(path string, domains []string) bool {
	ns := s.routes.Resolve(path)
	return slices.ContainsFunc(domains, func(d string) bool {
		if d == "" {
			return true
		}
		d = s.domain(d)
		handler, whole := strings.CutSuffix(d, ":")
		return ns == d || whole && (ns == handler || strings.HasPrefix(ns, d))
	})
}

// simDomains are where programs renew: namespaces, paths in them, and handlers; "" is everywhere.
var simDomains = []string{
	"", "a", "a:/0", "a:/0/x/y", "a:/1", "a:/01", "a:/01/x", "a:/0-2/x", "a:/00", "b", "b:/", "b:/0/x", "bc",
	"bc:/0", "c:/0",
}

// domains draws those that a program renews in.
func (m *simMoves) domains(rnd *rand.Rand) (ds []string) {
	for range 1 + rnd.IntN(3) {
		ds = append(ds, simDomains[rnd.IntN(len(simDomains))])
	}
	if !m.r.unbound() { // else what is taken elsewhere is watched
		ds = append(ds, simDomains[rnd.IntN(3)])
	}
	return ds
}

// domains is what a request names for one.
func domains(d string) []string {
	if d == "" {
		return nil
	}
	return []string{d}
}

// simOwnTTL draws for how long a program renews: hardly more than the way takes, or as locks last.
func simOwnTTL(r *simRun, rnd *rand.Rand) time.Duration {
	if r.moves.lasting == 0 || r.moves.lasting == 2 && rnd.IntN(2) == 0 {
		return 100*time.Millisecond + time.Duration(rnd.Int64N(int64(time.Second)))
	}
	return r.ttl(rnd)
}

// renewing has the program renew its owner for a while, by several of its goroutines, now and then.
func (a *actor) renewing(ctx context.Context, rnd *rand.Rand) {
	for ctx.Err() == nil {
		pauseFor(ctx, time.Duration(rnd.Int64N(int64(5*time.Second))))
		domain, ttl := a.renews[rnd.IntN(len(a.renews))], simOwnTTL(a.r, rnd)
		flags := wire.Flags(rnd.IntN(4)/3) * wire.FlagExtend
		some, stop := context.WithTimeout(ctx, time.Duration(rnd.Int64N(int64(4*time.Second))))
		pace := time.Duration(1+rnd.IntN(100)) * time.Millisecond
		var all sync.WaitGroup
		for range 1 + rnd.IntN(3) {
			pauseFor(some, pace/3)
			all.Go(func() {
				for some.Err() == nil {
					a.renewOnce(some, domain, ttl, flags)
					pauseFor(some, pace)
				}
			})
		}
		all.Wait()
		stop()
	}
}

// renewOnce has the program renew its owner.
func (a *actor) renewOnce(ctx context.Context, domain string, ttl time.Duration, flags wire.Flags) {
	c, owner := a.of.current()
	_, _ = c.Renew(ctx, owner+a.suffix, ttl, "", flags, domains(domain)...)
	a.r.inTime(ctx, "Renew")
}

// crowd is more paths than what is told of a lease names holds.
func crowd(name string) (all []Path) {
	for i := range wire.MaxLeaseAcquires + 2 {
		all = append(all, Path{Path: fmt.Sprintf("a:/0/%s-many/%02d", name, i)})
	}
	return all
}

// asks takes note of paths that somebody wants.
func (r *simRun) asks(paths []Path) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range paths {
		r.paths[p.Path] = true
	}
}

// simKill is that everything was taken away from an owner, or that a client is told so of a lease.
type simKill struct {
	owner, namespace string
	client           string // "": nobody is told by this
	at               time.Time
	frame            []byte
	heard            time.Time // when it came to the client
}

// heard takes note of what came to a client.
func (s *simServer) heard(client string, b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.kills {
		if k.client == client && k.heard.IsZero() && bytes.Contains(b, k.frame) {
			k.heard = time.Now()
		}
	}
}

// killed says that a belief's owner was, from so long before its lock was asked for on.
func (r *simRun) killed(b *belief, before time.Duration) bool {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return slices.ContainsFunc(r.s.kills, func(k *simKill) bool {
		return k.owner == b.l.owner && !k.at.Before(b.began.Add(-before))
	})
}

// simToldLate is how long after a kill its owner may be told so, and doubt what it has taken since.
const simToldLate = 10 * time.Second

// unaware says that a belief's owner was killed since its lock was asked for, and cannot know, or has not for long: who
// was told, and cannot ask, does not believe for more than askedWithin (told.go).
func (r *simRun) unaware(b *belief) bool {
	if !r.killed(b, 0) {
		return false
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	var last time.Time // what goes by an earlier one the owner may have had again
	for _, k := range r.s.kills {
		if k.owner == b.l.owner && k.at.After(last) {
			last = k.at
		}
	}
	return !slices.ContainsFunc(r.s.kills, func(k *simKill) bool {
		return k.client == b.of && k.owner == b.l.owner && k.namespace == b.l.namespace && !k.at.Before(last) &&
			!k.heard.IsZero() &&
			time.Since(k.heard) > askedWithin+100*time.Millisecond
	})
}
