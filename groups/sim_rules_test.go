package groups

import (
	"fmt"
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// What clients of the simulation ask beside plain locks: keys that are asked again, permits,
// assertions, several paths, tokens of their own, parts of an owner's locks.

// The semaphore of the simulation: a namespace of that algorithm, set before anything else
// happens and never changed, with paths of so many permits.
const (
	simPool    = "s:/q"
	simPermits = 2
)

func pooled(path string) bool { return strings.HasPrefix(path, simPool) }

// more asks something of that kind.
func (c *simClient) more(n [6]int) {
	if c.dead || len(c.open) > 40 {
		return
	}
	if c.w.mixed() && (n[3]/128%8 != 0 || mixedSegments(c.w.seed) != 1) {
		c.mixes(n)
		return
	}
	owner, path := c.owner(n[1]), simPath(n[2])
	if n[3]/32%4 == 0 {
		c.shares(n)
		return
	}
	switch x := n[3] % 32; {
	case x >= 28:
		c.bound(n)
	case x >= 27 && n[4]/8%4 == 0:
		c.cutOff(n)
	case x >= 27 && n[4]/8%4 == 1:
		c.throng(n)
	case x >= 27:
		c.cameBack(n)
	case x >= 26:
		c.overMove(n)
	case x >= 23:
		domain := simDomain(n[4])
		if h, ok := c.certainly(owner); ok { // its namespace, whichever that is by now
			domain = h.path
		}
		c.ask(&wire.Request{Op: wire.OpRenew, Owner: owner, TTLMillis: 3_600_000, Domains: []string{domain}}, false)
	case x >= 20:
		c.renewBehind(n)
	case x < 5:
		c.several(owner, path, n)
	case x < 9:
		c.assert(owner, path, n)
	case x < 14:
		c.permit(n)
	case x < 16:
		c.keyedAcquire(n)
	case x < 18:
		c.keyedRelease(owner, path)
	case x < 19:
		c.ask(&wire.Request{Op: wire.OpReleaseAll, Owner: owner, Domains: []string{simDomain(n[4])}}, false)
	default:
		c.ask(&wire.Request{Op: wire.OpRenew, Owner: owner, TTLMillis: 3_600_000, Domains: []string{simDomain(n[4])}},
			false)
	}
}

// certainly answers something that an owner certainly holds.
func (c *simClient) certainly(owner string) (of holding, ok bool) {
	for h, b := range c.known {
		if h.owner == owner && b.held && b.certain() && !pooled(h.path) && (!ok || h.path < of.path) {
			of, ok = h, true
		}
	}
	return of, ok
}

func simDomain(n int) string { return []string{"h:/a", "g:/", "h:/", "h:/b", "h:/a/b"}[n%5] }

// renewBehind takes a lock and renews its lease right behind, without waiting for the first
// answer: the second cannot say that there is no lease when the first one said that there is.
// Its namespace stays, while others are made of parts of it.
func (c *simClient) renewBehind(n [6]int) {
	ns := []string{"h:/a", "g:/x"}[n[2]%2]
	// nobody kills it, nor is in its way
	owner, path := fmt.Sprintf("o%dr", c.index), fmt.Sprintf("%s/r/%d", ns, c.index)
	if n[4]%3 == 0 {
		c.ask(&wire.Request{Op: wire.OpRelease, Owner: owner, Releases: []wire.ReleaseRequest{{Path: path}}}, false)
		c.let = c.last
	}
	c.renew(owner, ns, c.take(owner, path))
}

// take takes a lock that lasts.
func (c *simClient) take(owner, path string) *simCall {
	return c.ask(&wire.Request{
		Op: wire.OpAcquire, Owner: owner, TTLMillis: 3_600_000, Locks: []wire.LockRequest{{Path: path}},
		Flags: wire.FlagNoQueue,
	}, false)
}

// renew renews the lease of what was taken, or is being.
func (c *simClient) renew(owner, domain string, taken *simCall) {
	renewed := c.ask(&wire.Request{Op: wire.OpRenew, Owner: owner, TTLMillis: 3_600_000, Domains: []string{domain}},
		false)
	renewed.behind, taken.follower = taken, renewed
}

// renewed fails when a renewal says that there is no lease, and what it came behind said that
// there is one. Whichever is answered last looks.
func (k *checks) renewed(w *world, call *simCall) {
	taken := call.behind
	// it tells what is so when it is asked again between nodes
	if !taken.ok || !call.lost || taken.again || call.again || call.c.let > taken.id {
		return
	}
	w.fail("client %d #%d: renew of %s in %s answers LOST, right behind #%d, which took a lock there", call.c.index,
		call.id, call.req.Owner, call.req.Domains[0], taken.id)
}

// several asks for two paths at once, perhaps letting go of a third, perhaps with a token of
// its own.
func (c *simClient) several(owner, path string, n [6]int) {
	top := simTops[n[2]%len(simTops)]
	req := &wire.Request{Op: wire.OpAcquire, Owner: owner, TTLMillis: 3_600_000, Flags: wire.FlagNoQueue,
		Locks: []wire.LockRequest{{Path: path}}}
	if other := top + simBelow[n[4]%len(simBelow)]; other != path {
		l := wire.LockRequest{Path: other}
		if n[4]/16%3 == 0 {
			l.Mode = wire.ModeRead
		}
		req.Locks = append(req.Locks, l)
	}
	switch n[4] / 64 % 4 {
	case 0:
		req.Flags = wire.FlagWait
		req.QueueTTLMillis = uint64(500 + n[5]%20_000)
	case 1:
		req.Releases = []wire.ReleaseRequest{{Path: top + simBelow[n[5]%len(simBelow)]}}
	case 2:
		req.Token = 1 + c.w.check.highest() + int64(n[5]%100)
	}
	for _, r := range req.Releases { // what is asked for and let go at once is nothing to reason about
		for _, l := range req.Locks {
			if r.Path == l.Path {
				req.Releases = nil
			}
		}
	}
	c.ask(req, false)
}

// highest is the highest token that any grant answered.
func (k *checks) highest() (t int64) {
	for _, x := range k.tokens {
		t = max(t, x)
	}
	return t
}

// assert asks whether an owner may write, with the token that its client knows, or another.
func (c *simClient) assert(owner, path string, n [6]int) {
	h := holding{owner, path, wire.ModeWrite}
	for known, b := range c.known { // rather of one that is held; whichever it is, the answer is the same kind
		if b.held && b.certain() && known.mode == wire.ModeWrite && !pooled(known.path) && (known.owner == owner) &&
			(!c.belief(h).held || known.path < h.path) {
			h = known
		}
	}
	token := c.belief(h).token
	if n[5]%4 == 0 {
		token += int64(n[5]/4%3) - 1
	}
	call := c.ask(&wire.Request{Op: wire.OpAssertFencing, Owner: owner, Token: max(token, 1), Paths: []string{h.path}},
		false)
	b := c.belief(h)
	call.asserted, call.assertedBy = h, b.last
	if !b.certain() || b.conn != nil {
		call.assertedBy = 0
	}
}

// asserted compares an assertion's answer with what was certain all the while.
func (k *checks) asserted(w *world, call *simCall, res *wire.Result) {
	b := call.c.known[call.asserted]
	if b == nil || call.assertedBy == 0 || !b.certain() || b.last != call.assertedBy || call.again {
		return
	}
	may := b.held && b.token == call.req.Token
	switch {
	case may && res.Status != wire.StatusOK && w.now < b.until:
		w.fail("client %d #%d: %s may not write %s with token %d, which it holds until %v at least (%s)",
			call.c.index, call.id, call.req.Owner, call.asserted.path, call.req.Token, b.until, answerOf(res))
	case !may && res.Status == wire.StatusOK:
		w.fail("client %d #%d: %s may write %s with token %d; it holds: %v, with token %d",
			call.c.index, call.id, call.req.Owner, call.asserted.path, call.req.Token, b.held, b.token)
	}
}

// permit takes a permit, or gives one back.
func (c *simClient) permit(n [6]int) {
	if !c.w.pool {
		return
	}
	owner, path := fmt.Sprintf("o%d%c", c.index, 'p'+n[1]%2), fmt.Sprintf("%s/%d", simPool, n[2]%2)
	if n[4]%5 < 2 {
		c.ask(&wire.Request{Op: wire.OpRelease, Owner: owner, Releases: []wire.ReleaseRequest{{Path: path}}}, false)
		return
	}
	req := &wire.Request{
		Op: wire.OpAcquire, Owner: owner, TTLMillis: []uint64{3_600_000, 5000}[n[4]/5%2], Flags: wire.FlagNoQueue,
		Locks: []wire.LockRequest{{Path: path, Permits: simPermits}},
	}
	if n[5]%2 == 0 {
		req.Flags = wire.FlagWait
		req.QueueTTLMillis = uint64(500 + n[5]%20_000)
	}
	call := c.ask(req, false)
	if n[5]%6 == 0 {
		c.w.after(time.Duration(n[5]%3000)*time.Millisecond, func() { c.cancel(call) })
	}
}

// permits fails when more owners than there are permits certainly hold one.
func (k *checks) permits(w *world, path string) {
	var owners []string
	for _, c := range w.clients {
		for h, b := range c.known {
			if h.path == path && b.held && b.certain() && w.now < b.until {
				owners = append(owners, h.owner)
			}
		}
	}
	if len(owners) > simPermits {
		w.fail("%d owners hold %s, of %d permits", len(owners), path, simPermits)
	}
}

// keyedAcquire asks with a key, and so do other clients, as a program does that was started
// anew: all of them the very same.
func (c *simClient) keyedAcquire(n [6]int) {
	i := n[4] % 12
	req := &wire.Request{
		Op: wire.OpAcquire, Owner: fmt.Sprint("keyed", i), Key: fmt.Sprint("take", i), TTLMillis: 3_600_000,
		Locks: []wire.LockRequest{{Path: simPath(i * 37)}}, Flags: wire.FlagNoQueue,
	}
	switch i % 3 {
	case 1:
		req.Flags, req.QueueTTLMillis = 0, 2000
	case 2:
		req.Flags, req.QueueTTLMillis = wire.FlagWait, 2000
	}
	c.ask(req, false)
	if n[5]%3 == 0 {
		c.ask(&wire.Request{Op: wire.OpRelease, Owner: req.Owner,
			Releases: []wire.ReleaseRequest{{Path: req.Locks[0].Path}}}, false)
	}
	for h := range c.touches(req) {
		c.belief(h).dirty = never // others may ask for and let go of it
	}
}

// keyed fails when a request with a key was carried out more than once: its token tells.
func (k *checks) keyed(w *world, call *simCall, res *wire.Result) {
	if k.taken == nil {
		k.taken = make(map[string]int64)
	}
	if was, ok := k.taken[call.req.Key]; ok && was != res.Token {
		w.fail("client %d #%d: key %s brought token %d and then %d", call.c.index, call.id, call.req.Key,
			was, res.Token)
	}
	k.taken[call.req.Key] = res.Token
}

// keyedRelease lets go of a path with a key. Once that is answered, the same again does
// nothing, whatever the owner has taken since.
func (c *simClient) keyedRelease(owner, path string) {
	key := "let " + owner + path
	if c.w.forgetful() {
		key += fmt.Sprint(" ", c.last) // else it may be carried out again
	}
	done, asked := c.keys[key]
	if asked && !done {
		return // it may be carried out yet
	}
	if !asked {
		c.keys[key] = false
	}
	c.ask(&wire.Request{Op: wire.OpRelease, Owner: owner, Key: key, Releases: []wire.ReleaseRequest{{Path: path}}},
		false)
}
