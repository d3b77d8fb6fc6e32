package groups

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// What clients of the simulation ask in a third of the seeds instead of most of what sim_rules_test.go
// draws: all that the protocol takes, put together at random, about few owners that all clients use, in
// a handler of its own whose namespaces come, go and change their algorithm. So little of it is known to
// a client. What is held against what is: the replicas, the naive model (also what reads of a group
// show), and answers in time; of wait edges sim_edges_test.go knows.

// mixedSeed says that a run draws them.
func mixedSeed(seed uint64) bool { return seed%3 == 0 }

// mixedSegments is how many segments a namespace of its cluster has: as by default in half of them.
// Other requests that need to know in which namespace a path lies by default are not asked where it is
// another number.
func mixedSegments(seed uint64) int { return []int{1, 1, 1, 1, 0, 2, 2, 3}[seed/3%8] }

func (w *world) mixed() bool { return mixedSeed(w.seed) }

// Where it all happens, and namespaces there: chosen ones, and those that paths have by default.
var (
	mixedRoots   = []string{"v:/a", "v:/a/b", "v:/b", "v:/a/b/c", "v", "v:/"}
	mixedPaths   = []string{"v:/a", "v:/a/b", "v:/a/b/c", "v:/a/b/c/d", "v:/a/x", "v:/b", "v:/b/y", "v:/c/q"}
	mixedPermits = []uint32{0, 1, 2, 2, 2, 3}
	mixedGraces  = []uint64{0, 50, 500, 3000, 100_000}
	mixedTTLs    = []uint64{1, 300, 700, 2000, 20_000, 3_600_000}
)

func mixedOwner(n int) string { return fmt.Sprint("shared m", n%5) }

// mixedAt is a namespace and a path that may lie there, other ones at each turn.
func mixedAt(turn int) (ns, path string) {
	ns = mixedRoots[turn%len(mixedRoots)]
	for i := turn / len(mixedRoots); !mayLieIn(path, ns); i++ {
		path = mixedPaths[i%len(mixedPaths)]
	}
	return ns, path
}

// mix draws requests of a client. All chance comes from a step's numbers, so that other steps may be left out.
type mix struct {
	*rand.Rand
	c *simClient
}

// mixes asks a few.
func (c *simClient) mixes(n [6]int) {
	m := &mix{rand.New(rand.NewPCG(uint64(n[1])<<20|uint64(n[2]), uint64(n[4])<<20|uint64(n[5]))), c}
	for range 1 + m.IntN(5) {
		if len(c.open) <= 40 {
			m.one()
		}
	}
}

// mixedKinds is what is drawn, and how often.
var mixedKinds = []struct {
	weight int
	draw   func(*mix) *wire.Request // nil: it has asked by itself
}{
	{45, (*mix).acquire},
	{15, (*mix).release},
	{5, (*mix).releaseAll},
	{3, func(m *mix) *wire.Request { return &wire.Request{Op: wire.OpForceRelease, Owner: m.owner()} }},
	{6, (*mix).renew},
	{2, func(m *mix) *wire.Request { return &wire.Request{Op: wire.OpRequestRevoke, Owner: m.owner()} }},
	{6, (*mix).setEdge},
	{2, func(m *mix) *wire.Request { return &wire.Request{Op: wire.OpClearWaitEdge, Owner: m.owner()} }},
	{6, (*mix).ownEdge},
	{6, (*mix).read},
	{5, (*mix).bind},
	{3, func(m *mix) *wire.Request { return &wire.Request{Op: wire.OpUnbind, Owner: m.owner()} }},
	{7, (*mix).policy},
}

// one asks one request. What is not valid together is not asked.
func (m *mix) one() {
	all := 0
	for _, k := range mixedKinds {
		all += k.weight
	}
	at, kind := m.IntN(all), 0
	for ; at >= mixedKinds[kind].weight; kind++ {
		at -= mixedKinds[kind].weight
	}
	req := mixedKinds[kind].draw(m)
	if req == nil || req.Validate() != nil {
		return
	}
	req = m.keyed(req)
	m.c.share(req, req.Flags&wire.FlagBind != 0)
	call := m.c.open[m.c.last]
	if call == nil || req.Op != wire.OpAcquire {
		return
	}
	if m.c.took = append(m.c.took, call); len(m.c.took) > 12 {
		m.c.took = m.c.took[1:]
	}
	if late := time.Duration(m.IntN(1500)) * time.Millisecond; req.Flags&wire.FlagWait != 0 && m.IntN(4) == 0 {
		m.c.w.after(late, func() { m.c.cancel(call) })
	}
}

// keyed gives a request a key at times, or asks what another client asked by that key: the same, and now and then
// something else, which is refused.
func (m *mix) keyed(req *wire.Request) *wire.Request {
	switch req.Op {
	case wire.OpAcquire, wire.OpRelease, wire.OpReleaseAll, wire.OpForceRelease, wire.OpRenew, wire.OpSetWaitEdge,
		wire.OpSetPolicy, wire.OpDeletePolicy:
	default:
		return req
	}
	if req.Target != 0 || m.IntN(3) != 0 {
		return req
	}
	key, w := fmt.Sprint("mixed ", m.IntN(40)), m.c.w
	if was := w.keyed[key]; was != nil && m.IntN(4) != 0 {
		again := *was
		return &again
	}
	req.Key = key
	if w.keyed == nil {
		w.keyed = make(map[string]*wire.Request)
	}
	w.keyed[key] = req
	return req
}

func (m *mix) owner() string { return mixedOwner(m.IntN(5)) }

func (m *mix) path() string { return mixedPaths[m.IntN(len(mixedPaths))] }

func (m *mix) root() string { return mixedRoots[m.IntN(len(mixedRoots))] }

func (m *mix) ttl() uint64 { return mixedTTLs[m.IntN(len(mixedTTLs))] }

func (m *mix) mode() wire.Mode {
	if m.IntN(3) == 0 {
		return wire.ModeRead
	}
	return wire.ModeWrite
}

func (m *mix) releases(most int) (all []wire.ReleaseRequest) {
	for range m.IntN(most + 1) {
		all = append(all, wire.ReleaseRequest{Path: m.path(), Mode: m.mode()})
	}
	return all
}

func (m *mix) domains() (all []string) {
	for range m.IntN(3) {
		all = append(all, m.root())
	}
	return all
}

// acquire is one of up to three paths, rather of one namespace, with all that may go with them.
func (m *mix) acquire() *wire.Request {
	req := &wire.Request{Op: wire.OpAcquire, Owner: m.owner(), TTLMillis: m.ttl(), Flags: wire.FlagNoQueue}
	if x := m.IntN(5); x < 4 {
		req.Flags, req.QueueTTLMillis = []wire.Flags{0, wire.FlagWait}[x%2], uint64(300+m.IntN(20_000))
	}
	if m.IntN(4) == 0 {
		req.Flags |= wire.FlagBind
	}
	for range 1 + m.IntN(3) {
		req.Locks = append(req.Locks, m.lock())
	}
	if m.IntN(2) == 0 {
		for i := range req.Locks {
			req.Locks[i].Path = req.Locks[0].Path + []string{"", "", "/s", "/t"}[m.IntN(4)]
		}
	}
	if m.IntN(5) == 0 {
		req.Releases = m.releases(2)
		if m.IntN(2) == 0 {
			for i := range req.Releases {
				req.Releases[i].Path = req.Locks[0].Path + []string{"", "/s"}[m.IntN(2)]
			}
		}
	}
	if m.IntN(5) == 0 {
		req.Token = int64(1 + m.IntN(60))
	}
	return req
}

func (m *mix) lock() wire.LockRequest {
	l := wire.LockRequest{Path: m.path(), Mode: m.mode(), Permits: mixedPermits[m.IntN(len(mixedPermits))]}
	if l.Mode == wire.ModeRead {
		l.Permits = 0
	}
	if m.IntN(6) == 0 {
		l.State = wire.StateHeld
	}
	return l
}

// release gives back paths, or what an earlier acquire of the client took, by its id and perhaps by its token.
func (m *mix) release() *wire.Request {
	req := &wire.Request{Op: wire.OpRelease, Owner: m.owner(), Releases: m.releases(3), DelWait: m.IntN(4) == 0}
	if len(m.c.took) == 0 || m.IntN(3) != 0 {
		return req
	}
	of := m.c.took[m.IntN(len(m.c.took))]
	req.Owner, req.Target, req.Releases = of.req.Owner, of.id, nil
	for _, l := range of.req.Locks {
		req.Releases = append(req.Releases, wire.ReleaseRequest{Path: l.Path, Mode: l.Mode})
	}
	if m.IntN(3) == 0 {
		req.Token = int64(1 + m.IntN(60))
	}
	return req
}

func (m *mix) releaseAll() *wire.Request {
	return &wire.Request{Op: wire.OpReleaseAll, Owner: m.owner(), Domains: m.domains(), DelWait: m.IntN(3) == 0}
}

func (m *mix) renew() *wire.Request {
	req := &wire.Request{Op: wire.OpRenew, Owner: m.owner(), TTLMillis: m.ttl(), Domains: m.domains()}
	if m.IntN(3) == 0 {
		req.Flags |= wire.FlagExtend
	}
	return req
}

func (m *mix) setEdge() *wire.Request {
	req := &wire.Request{Op: wire.OpSetWaitEdge, Owner: m.owner(), Blocker: m.owner(), TTLMillis: m.ttl()}
	if m.IntN(2) == 0 {
		req.Path, req.Reason = m.path(), wire.ReasonWriteLocked
	}
	return req
}

// read asks what is so by now.
func (m *mix) read() *wire.Request {
	switch m.IntN(4) {
	case 0:
		return &wire.Request{Op: wire.OpDetectCycle, Owner: m.owner(), Depth: uint32(m.IntN(5))}
	case 1:
		return &wire.Request{Op: wire.OpListLocks, Owner: m.owner(), Domains: m.domains()}
	case 2:
		return &wire.Request{Op: wire.OpIsOwnerAlive, Owner: m.owner(), Domains: m.domains()}
	}
	token := int64(1 + m.IntN(100))
	return &wire.Request{Op: wire.OpAssertFencing, Owner: m.owner(), Token: token, Paths: []string{m.path(), m.path()}}
}

// bind binds an owner that is perhaps bound to other connections as well, each with a grace of its own.
func (m *mix) bind() *wire.Request {
	req := &wire.Request{Op: wire.OpBind, Owner: m.owner(), GraceMillis: mixedGraces[m.IntN(len(mixedGraces))]}
	if m.IntN(2) == 0 {
		req.TTLMillis = m.ttl()
	}
	return req
}

// policy moves a subtree, or changes its algorithm.
func (m *mix) policy() *wire.Request {
	m.c.w.count.moves++
	if m.IntN(3) == 0 {
		return &wire.Request{Op: wire.OpDeletePolicy, Namespace: m.root()}
	}
	return &wire.Request{Op: wire.OpSetPolicy, Namespace: m.root(), Algorithm: wire.Algorithm(m.IntN(5))}
}
