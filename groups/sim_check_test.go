package groups

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// What the simulation checks.

// digestEvery is at which entries replicas are compared.
const digestEvery = 5

// checks is what a run remembers to check by.
type checks struct {
	digests map[[2]uint64]simDigest // by log and index
	tokens  map[string]int64        // by path, the highest that a grant answered
	counter int64                   // the highest of incr_fencing_token
	counted map[int64]uint64        // by value, whose request it was
	taken   map[string]int64        // by key, the token that it brought
	told    toldEvents
}

type simDigest struct {
	sum  uint64
	node int
}

// applied compares a replica with the others at the same index.
func (k *checks) applied(w *world, r *simRep) {
	if r.applied%digestEvery != 0 {
		return
	}
	if k.digests == nil {
		k.digests = make(map[[2]uint64]simDigest)
	}
	k.waits(w, r)
	at := [2]uint64{r.log.shard, r.applied}
	sum := r.m.Digest().Sum + w.fencesOf(r.m, int(r.applied/digestEvery))
	if was, ok := k.digests[at]; !ok {
		k.digests[at] = simDigest{sum, r.node.index}
	} else if was.sum != sum {
		w.fail("log %d: nodes %d and %d differ at entry %d", r.log.shard, was.node, r.node.index, r.applied)
	}
}

// waits fails when a session of a replica waits for more or less answers than the groups have open calls of it: who
// starts from the rows counts these.
func (k *checks) waits(w *world, r *simRep) {
	open := make(map[engine.Session]int)
	for _, id := range r.m.Waiting() {
		open[id]++
	}
	for id, s := range r.m.Sessions.ByID {
		if s.Waits != open[id] {
			w.fail("log %d, node %d, entry %d: a session waits for %d answers, and groups have %d of its calls open",
				r.log.shard, r.node.index, r.applied, s.Waits, open[id])
		}
	}
}

// fencesOf sums up what some paths' fences are, other ones at each turn: a state's digest has
// no fences of paths that nobody holds, as each replica may delete those that a floor stands
// for when it likes. What is answered of them must not depend on it.
func (w *world) fencesOf(m *replica.Machine, turn int) uint64 {
	sum := fencesAt(m, simPath(turn), simRoots)
	if w.mixed() {
		sum += fencesAt(m, mixedPaths[turn%len(mixedPaths)], mixedRoots)
	}
	return sum
}

// fencesAt is those of a path in the namespaces that it may lie in.
func fencesAt(m *replica.Machine, path string, roots []string) (sum uint64) {
	for _, g := range m.Order { // all runs on one goroutine
		view := m.View(g.Number)
		for _, ns := range append([]string{wire.PathHandler(path)}, roots...) {
			if !mayLieIn(path, ns) {
				continue
			}
			res := view.Inspect(ns, path)
			sum += xxh3.HashString(fmt.Sprint(g.Number, ns, path, res.Token, res.Flag))
		}
	}
	return sum
}

// mayLieIn says that a path lies in a namespace if none below that holds it.
func mayLieIn(path, ns string) bool {
	return path == ns || wire.PathHandler(path) == ns || strings.HasPrefix(path, strings.TrimSuffix(ns, "/")+"/")
}

// lateBy is how long after its time a call may be answered. The time of a wait is that of its log, which stands still
// while nobody leads it. That is counted (stood); what it loses beside that, whenever another one leads, is not.
const (
	lateBy     = 2 * time.Second
	waitLateBy = 15 * time.Second
)

// late fails when a call is not answered in its time, over a connection that stands, by a node
// that did not stand still.
func (k *checks) late(w *world) {
	for _, c := range w.clients {
		conn := c.conn
		if conn == nil || conn.gone || conn.closed || conn.node.still() {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(c.open)) {
			call := c.open[id]
			late := lateBy
			if call.req.Flags&wire.FlagWait != 0 {
				late = waitLateBy + w.stood(call.sent)
			}
			if call.conn == conn && conn.node.pause < call.sent && w.now > call.limit+late {
				w.fail("client %d #%d is not answered %v after it was sent to node %d: %s", c.index, id,
					w.now-call.sent,
					conn.node.index, describe(call))
			}
		}
	}
}

// stood is for how long the time of a log stood still since an instant, of that where it did for longest: which one a
// wait is in depends on the routes, and moves.
func (w *world) stood(since time.Duration) (d time.Duration) {
	for _, shard := range w.shards {
		d = max(d, w.logs[shard].stood(since))
	}
	return d
}

// conflicts says that two paths cannot be held by two owners in two modes, under
// recursive_rw.
func conflicts(a string, am wire.Mode, b string, bm wire.Mode) bool {
	switch {
	case a == b:
		return am == wire.ModeWrite || bm == wire.ModeWrite
	case strings.HasPrefix(b, a+"/"):
		return am == wire.ModeWrite
	case strings.HasPrefix(a, b+"/"):
		return bm == wire.ModeWrite
	}
	return false
}

// exclusive fails when what a client was just granted conflicts with what another one
// certainly holds.
func (k *checks) exclusive(w *world, c *simClient, req *wire.Request) {
	for _, l := range req.Locks {
		if pooled(l.Path) {
			k.permits(w, l.Path)
			continue
		}
		own := c.belief(holding{req.Owner, l.Path, l.Mode})
		if !own.held || !own.certain() || w.now >= own.until {
			continue
		}
		for _, o := range w.clients {
			for h, b := range o.known {
				if h.owner == req.Owner || !b.held || !b.certain() || w.now >= b.until || !o.lasts(b) || !c.lasts(own) {
					continue
				}
				if b.ns == own.ns && conflicts(l.Path, l.Mode, h.path, h.mode) {
					w.fail("%s holds %s (token %d) and %s holds %s (token %d)", req.Owner, l.Path, own.token, h.owner,
						h.path, b.token)
				}
			}
		}
	}
}

// tokensNow is the highest tokens granted so far on what a request is about.
func (k *checks) tokensNow(r *wire.Routes, req *wire.Request) map[string]int64 {
	if req.Op != wire.OpAcquire {
		return nil
	}
	out := make(map[string]int64)
	for _, l := range req.Locks {
		for p, t := range k.tokens {
			near := strings.HasPrefix(p, l.Path+"/") || strings.HasPrefix(l.Path, p+"/")
			if p == l.Path || near && r.Resolve(p) == r.Resolve(l.Path) { // namespaces do not know of each other's
				out[l.Path] = max(out[l.Path], t)
			}
		}
	}
	return out
}

// token fails when a minted token is not above those that were granted before it was
// asked for.
func (k *checks) token(w *world, call *simCall, res *wire.Result) {
	if k.tokens == nil {
		k.tokens = make(map[string]int64)
	}
	for _, l := range call.req.Locks {
		if l.Mode != wire.ModeWrite || l.State != wire.StateNew || res.Token == 0 {
			continue
		}
		b := call.c.belief(holding{call.req.Owner, l.Path, l.Mode})
		// a release before it came behind it, and left it what it has
		same := call.again && (res.Token == call.highest[l.Path] || res.Token == b.token)
		if call.req.Token == 0 && call.req.Flags&wire.FlagWait == 0 && !b.held && b.certain() &&
			res.Token <= call.highest[l.Path] && !same {
			w.fail("client %d #%d: %s is granted %s with token %d, after %d was granted there", call.c.index, call.id,
				call.req.Owner, l.Path, res.Token, call.highest[l.Path])
		}
		k.tokens[l.Path] = max(k.tokens[l.Path], res.Token)
	}
}

// certainOn lists what is certainly held on a path, or certainly not.
func (k *checks) certainOn(w *world, path string) map[holding]uint64 {
	out := make(map[holding]uint64)
	for _, c := range w.clients {
		for h, b := range c.known {
			if h.path == path && b.certain() && (!b.held || c.lasts(b)) {
				out[h] = b.last
			}
		}
	}
	return out
}

// read compares what a read saw with what is certain since before it was asked.
func (k *checks) read(w *world, call *simCall, res *wire.Result) {
	if call.again {
		return
	}
	for _, c := range w.clients {
		for h, last := range call.held {
			b := c.known[h]
			if b == nil || !b.certain() || b.last != last || b.held && !c.lasts(b) {
				continue
			}
			k.compare(w, h, b, res, "a read")
		}
	}
}

// compare compares what a path looks like with a certain belief.
func (k *checks) compare(w *world, h holding, b *belief, res *wire.Result, who string) {
	holds := res.Owner == h.owner
	switch {
	case pooled(h.path):
		holds = res.List != nil && slices.Contains(res.List.Names2, h.owner)
	case h.mode == wire.ModeRead:
		holds = res.List != nil && slices.Contains(res.List.Names, h.owner)
	}
	switch {
	case b.held && w.now < b.until && !holds:
		w.fail("%s sees that %s does not hold %s, whose lease lasts until %v at least (now %v; seen: %s)", who, h.owner,
			h.path, b.until, w.now, answerOf(res))
	case !b.held && holds && b.last > 0:
		w.fail("%s sees that %s holds %s, which it has released (request %d)", who, h.owner, h.path, b.last)
	}
}

// incr fails when the counter did not grow, or one value was given twice.
func (k *checks) incr(w *world, call *simCall, res *wire.Result) {
	if k.counted == nil {
		k.counted = make(map[int64]uint64)
	}
	name := uint64(call.c.index)<<32 | call.id
	if was, ok := k.counted[res.Token]; ok && was != name {
		w.fail("the counter's value %d was given twice", res.Token)
	}
	k.counted[res.Token] = name
	if t := call.highest["counter"]; res.Token <= t {
		w.fail("the counter says %d after %d", res.Token, t)
	}
	k.counter = max(k.counter, res.Token)
}

// final compares everything that is certain with what the replicas say.
func (k *checks) final(w *world) {
	var n *Node
	for _, x := range w.nodes {
		if x.witness {
			n = x.node
		}
	}
	for _, c := range w.clients {
		for _, id := range slices.Sorted(maps.Keys(c.open)) {
			call := c.open[id]
			w.fail("client %d #%d was never answered: %s, sent at %v", c.index, id, describe(call), call.sent)
		}
		keys := slices.SortedFunc(maps.Keys(c.known), func(a, b holding) int {
			return cmp.Or(strings.Compare(a.owner, b.owner), strings.Compare(a.path, b.path),
				cmp.Compare(a.mode, b.mode))
		})
		for _, h := range keys {
			b := c.known[h]
			r := n.routes.Load()
			ns := r.Resolve(h.path)
			g := n.groupOf(ns)
			res := n.logOf(g).local.Load().View(g).Inspect(ns, h.path)
			if b.certain() && (!b.held || c.lasts(b)) {
				k.compare(w, h, b, &res, "the end")
			}
			ended := c.dead && c.conn.told && c.conn.node.life == c.conn.life // and the node lived to tell it
			if ended {
				k.outlived(w, c, h, &res)
			}
			if ended && !c.yokes(h.owner) && h.mode == wire.ModeWrite && b.conn != nil && res.Owner == h.owner &&
				len(b.open) == 0 && b.queued == 0 {
				w.fail("%s holds %s, tied to a connection that closed long ago", h.owner, h.path)
			}
		}
	}
	ticks := len(w.shards) * int(w.now/time.Second)                   // one a second, while anything is to end
	if most := 3*w.count.ops + 1000 + ticks; w.count.entries > most { // as when something is asked again and again
		w.fail("%d entries for %d requests, %d at most were to be expected", w.count.entries, w.count.ops, most)
	}
	for _, x := range w.nodes {
		if x.node == nil || x.witness {
			continue
		}
		x.node.waits.mu.Lock()
		left := len(x.node.waits.calls)
		x.node.waits.mu.Unlock()
		if left > 0 {
			w.fail("node %d keeps %d open calls that nobody waits for", x.index, left)
		}
		for i := range x.node.inflight {
			if c := x.node.inflight[i].Load(); c != 0 {
				w.fail("node %d counts %d requests under way in slot %d", x.index, c, i)
			}
		}
	}
}
