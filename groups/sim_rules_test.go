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
	owner, path := c.owner(n[1]), simPath(n[2])
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
		c.ask(&wire.Request{Op: wire.OpRenew, Owner: owner, TTLMillis: 3_600_000, Domains: []string{simDomain(n[4])}}, false)
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
	owner, path := fmt.Sprintf("o%dr", c.index), fmt.Sprintf("%s/r/%d", ns, c.index) // nobody kills it, nor is in its way
	if n[4]%3 == 0 {
		c.ask(&wire.Request{Op: wire.OpRelease, Owner: owner, Releases: []wire.ReleaseRequest{{Path: path}}}, false)
		c.let = c.last
	}
	c.renew(owner, ns, c.take(owner, path))
}

// take takes a lock that lasts.
func (c *simClient) take(owner, path string) *simCall {
	return c.ask(&wire.Request{
		Op: wire.OpAcquire, Owner: owner, TTLMillis: 3_600_000, Locks: []wire.LockRequest{{Path: path}}, Flags: wire.FlagNoQueue,
	}, false)
}

// renew renews the lease of what was taken, or is being.
func (c *simClient) renew(owner, domain string, taken *simCall) {
	renewed := c.ask(&wire.Request{Op: wire.OpRenew, Owner: owner, TTLMillis: 3_600_000, Domains: []string{domain}}, false)
	renewed.behind, taken.follower = taken, renewed
}

// simMover is the root of a namespace that is made and unmade while each client takes a lock of
// its own in it, renews it and lets go of it.
const simMover = "m:/x/y"

// overMove has a client make or unmake a namespace, and the others take locks in it within the
// same milliseconds. Who has one renews it, at times at a node that hears of the move late.
func (c *simClient) overMove(n [6]int) {
	w := c.w
	req := &wire.Request{Op: wire.OpSetPolicy, Namespace: simMover, Algorithm: wire.RecursiveRW}
	if n[2]%2 == 0 {
		req = &wire.Request{Op: wire.OpDeletePolicy, Namespace: simMover}
	}
	w.count.moves++
	late := w.nodes[n[1]%(len(w.nodes)-1)]
	late.slowFor(time.Duration(n[1]%1500) * time.Millisecond)
	c.ask(req, false)
	for i, o := range w.clients {
		if n[5]/8%2 == 0 {
			o.pair(late, time.Duration(n[4]*(i+1)%30_000)*time.Microsecond, n[5]/16+i)
			continue
		}
		owner, path := fmt.Sprintf("o%dm", i), fmt.Sprintf("%s/%d", simMover, i)
		renew := func(taken *simCall) {
			if i%2 == n[3]/32%2 && !o.dead {
				o.connect(late)
			}
			o.renew(owner, simMover, taken)
		}
		w.after(time.Duration(n[4]*(i+1)%30_000)*time.Microsecond, func() {
			if !o.dead && len(o.open) < 40 {
				o.take(owner, path).then = renew
			}
		})
		w.after(time.Duration(100+n[5]*(i+1)%900)*time.Millisecond, func() {
			if !o.dead {
				o.ask(&wire.Request{Op: wire.OpRelease, Owner: owner, Releases: []wire.ReleaseRequest{{Path: path}}}, false)
				o.let = o.last
			}
		})
	}
}

// pair has a client let go of two locks with one request, and take one of them, in one write: in either order, while the
// namespace of that one is made or unmade.
func (c *simClient) pair(late *simNode, after time.Duration, n int) {
	owner, stays, moves := fmt.Sprintf("o%ds", c.index), fmt.Sprintf("m:/x/s/%d", c.index), fmt.Sprintf("%s/s/%d", simMover, c.index)
	let := func(paths ...string) {
		req := &wire.Request{Op: wire.OpRelease, Owner: owner}
		for _, p := range paths {
			req.Releases = append(req.Releases, wire.ReleaseRequest{Path: p})
		}
		c.ask(req, false)
	}
	busy := func() bool { return c.dead || len(c.open) > 40 }
	if n%2 == 0 {
		c.w.after(after/2, func() {
			if !busy() && n/2%2 == 0 {
				c.connect(late)
			}
		})
	}
	c.w.after(after, func() {
		if busy() {
			return
		}
		if n/4%2 == 0 {
			let(stays, moves)
			c.take(owner, moves)
		} else {
			c.take(owner, moves)
			if n/8%2 == 0 {
				c.take(owner, stays)
			}
			c.w.after(time.Duration(n/16%8)*time.Millisecond, func() {
				if !c.dead {
					let(stays, moves)
				}
			})
		}
	})
	c.w.after(after+time.Duration(500+n%1000)*time.Millisecond, func() {
		if !busy() {
			c.ask(&wire.Request{Op: wire.OpInspectPath, Path: moves}, false)
			c.take(owner, moves) // that the next pair has something to let go of
			c.take(owner, stays)
		}
	})
}

// cameBack has a client wait for another's lock, and cancel the wait right before its connection
// ends and it asks again; the other lets go meanwhile, and leaders change. What ended is not taken
// up again.
func (c *simClient) cameBack(n [6]int) {
	w := c.w
	other := w.clients[(c.index+1+n[1]%(len(w.clients)-1))%len(w.clients)]
	if other.dead || len(other.open) > 40 {
		return
	}
	path := fmt.Sprintf("w:/%d/%d", n[2]%4, c.index)
	mine, theirs := fmt.Sprintf("o%dw", c.index), fmt.Sprintf("o%dv", other.index)
	let := func(o *simClient, owner string) {
		if !o.dead {
			o.ask(&wire.Request{Op: wire.OpRelease, Owner: owner, Releases: []wire.ReleaseRequest{{Path: path}}}, false)
		}
	}
	micros := func(n int) time.Duration { return time.Duration(n) * time.Microsecond }
	other.take(theirs, path)
	w.after(20*time.Millisecond, func() {
		if c.dead {
			return
		}
		call := c.ask(&wire.Request{
			Op: wire.OpAcquire, Owner: mine, TTLMillis: 3_600_000, Locks: []wire.LockRequest{{Path: path}}, Flags: wire.FlagWait, QueueTTLMillis: 20_000,
		}, false)
		w.after(20*time.Millisecond, func() {
			if n[0]/8%2 == 0 { // what is asked meanwhile meets in one entry of the next leader
				w.logs[w.shards[n[0]/16%len(w.shards)]].elect(nil)
			}
			c.cancel(call)
			w.after(micros(n[3]%4000), func() { let(other, theirs) })
			w.after(micros(300+n[4]%2000), func() {
				if !c.dead && c.conn != nil && !c.conn.gone && n[5]%4 != 0 {
					c.connect(c.conn.node)
				}
			})
		})
	})
	w.after(time.Duration(200+n[5]%300)*time.Millisecond, func() {
		if !c.dead {
			c.ask(&wire.Request{Op: wire.OpInspectPath, Path: path}, false)
			let(c, mine)
		}
	})
}

// cutOff has a client wait for another's lock through a node that does not lead, and the leader is cut off while it is asked. It is
// back when it has given up what was under way to it; the other lets go after that.
func (c *simClient) cutOff(n [6]int) {
	w := c.w
	other := w.clients[(c.index+1+n[1]%(len(w.clients)-1))%len(w.clients)]
	if other.dead || len(other.open) > 40 {
		return
	}
	path := fmt.Sprintf("w:/%d/c%d", n[2]%4, c.index)
	mine, theirs := fmt.Sprintf("o%dc", c.index), fmt.Sprintf("o%de", other.index)
	let := func(o *simClient, owner string) {
		if !o.dead {
			o.ask(&wire.Request{Op: wire.OpRelease, Owner: owner, Releases: []wire.ReleaseRequest{{Path: path}}}, false)
		}
	}
	witness := w.nodes[len(w.nodes)-1].node
	l := w.logs[witness.homes[witness.groupOf(witness.routes.Load().Resolve(path))]]
	other.take(theirs, path)
	w.after(30*time.Millisecond, func() {
		if c.dead || !l.valid() || len(w.cut) > 0 {
			return
		}
		leader := l.leader
		if c.conn == nil || c.conn.gone || c.conn.node == leader {
			for _, node := range w.nodes {
				if node != leader && !node.witness && node.node != nil {
					c.connect(node)
				}
			}
		}
		c.ask(&wire.Request{
			Op: wire.OpAcquire, Owner: mine, TTLMillis: 3_600_000, Locks: []wire.LockRequest{{Path: path}}, Flags: wire.FlagWait, QueueTTLMillis: 20_000,
		}, false)
		w.after(time.Duration(50+n[3]/32%2000)*time.Microsecond, func() { w.split(1 << leader.index) })
		w.after(time.Duration(9000+n[5]%5000)*time.Millisecond, w.heal)
		w.after(time.Duration(13_000+n[4]/32%5000)*time.Millisecond, func() { let(other, theirs) })
		w.after(22*time.Second, func() {
			if !c.dead {
				c.ask(&wire.Request{Op: wire.OpInspectPath, Path: path}, false)
				let(c, mine)
			}
		})
	})
}

// throng has a client wait for another's lock through a node that does not lead, for more owners than a group takes
// requests of at once where few are taken; and ask for locks beside that in one write. Then another node leads, or the
// connection between the two nodes breaks. The other lets go, and what each has is looked at.
func (c *simClient) throng(n [6]int) {
	w := c.w
	other := w.clients[(c.index+1+n[1]%(len(w.clients)-1))%len(w.clients)]
	if other.dead || len(other.open) > 40 {
		return
	}
	path := fmt.Sprintf("w:/%d/t%d", n[2]%4, c.index)
	theirs, waits, beside := fmt.Sprintf("o%df", other.index), 4+n[2]/4%4, n[2]/16%4
	asked, took := make([]*simCall, waits), make([]*simCall, beside)
	mine := func(i int) string { return fmt.Sprintf("o%dt%d", c.index, i) }
	also := func(i int) string { return fmt.Sprint(path, "-", i) }
	ask := func(after time.Duration, o *simClient, what func()) {
		w.after(after, func() {
			if !o.dead && len(o.open) < 60 {
				what()
			}
		})
	}
	let := func(o *simClient, owner, path string) {
		o.ask(&wire.Request{Op: wire.OpRelease, Owner: owner, Releases: []wire.ReleaseRequest{{Path: path}}}, false)
	}
	witness := w.nodes[len(w.nodes)-1].node
	l := w.logs[witness.homes[witness.groupOf(witness.routes.Load().Resolve(path))]]
	other.take(theirs, path)
	w.after(30*time.Millisecond, func() {
		if c.dead || !l.valid() {
			return
		}
		leader := l.leader
		if c.conn == nil || c.conn.gone || c.conn.node == leader {
			for _, node := range w.nodes {
				if node != leader && !node.witness && node.node != nil {
					c.connect(node)
				}
			}
		}
		for i := range waits {
			ask(time.Duration(i)*8*time.Millisecond, c, func() {
				asked[i] = c.ask(&wire.Request{
					Op: wire.OpAcquire, Owner: mine(i), TTLMillis: 3_600_000, Locks: []wire.LockRequest{{Path: path}}, Flags: wire.FlagWait,
					QueueTTLMillis: 20_000,
				}, false)
				asked[i].tries = simTries
			})
		}
		then := time.Duration(waits)*8*time.Millisecond + 10*time.Millisecond
		for i := range beside {
			ask(then, c, func() {
				took[i] = c.take(mine(i), also(i))
				took[i].tries = simTries
			})
		}
		w.after(then+time.Duration(n[3]/32%3000)*time.Microsecond, func() {
			if c.conn == nil || n[4]/32%2 == 0 && !l.valid() {
				return
			}
			at := c.conn.node
			if n[4]/32%2 != 0 {
				w.cutPipes(func(a, b *simNode) bool { return a == at && b == leader || a == leader && b == at })
				return
			}
			for _, node := range w.nodes {
				if node != leader && node != at && l.reps[node.index] != nil && node.node != nil && !node.witness && w.reach(l.leader, node) {
					l.elect(node)
					return
				}
			}
		})
		ask(2*time.Second, other, func() { let(other, theirs, path) })
		for i := range waits { // who was refused has nothing to give back
			ask(time.Duration(3000+i*200)*time.Millisecond, c, func() {
				if asked[i] != nil && (asked[i].ok || c.open[asked[i].id] != nil) {
					c.ask(&wire.Request{Op: wire.OpInspectPath, Path: path}, false)
					let(c, mine(i), path)
				}
			})
		}
		for i := range beside {
			ask(3*time.Second, c, func() {
				if took[i] != nil && took[i].ok {
					c.ask(&wire.Request{Op: wire.OpInspectPath, Path: also(i)}, false)
					let(c, mine(i), also(i))
				}
			})
		}
	})
}

// renewed fails when a renewal says that there is no lease, and what it came behind said that
// there is one. Whichever is answered last looks.
func (k *checks) renewed(w *world, call *simCall) {
	taken := call.behind
	if !taken.ok || !call.lost || taken.again || call.again || call.c.let > taken.id { // it tells what is so when it is asked again between nodes
		return
	}
	w.fail("client %d #%d: renew of %s in %s answers LOST, right behind #%d, which took a lock there", call.c.index, call.id, call.req.Owner, call.req.Domains[0], taken.id)
}

// several asks for two paths at once, perhaps letting go of a third, perhaps with a token of
// its own.
func (c *simClient) several(owner, path string, n [6]int) {
	top := simTops[n[2]%len(simTops)]
	req := &wire.Request{Op: wire.OpAcquire, Owner: owner, TTLMillis: 3_600_000, Flags: wire.FlagNoQueue, Locks: []wire.LockRequest{{Path: path}}}
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
	call := c.ask(&wire.Request{Op: wire.OpAssertFencing, Owner: owner, Token: max(token, 1), Paths: []string{h.path}}, false)
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
		c.ask(&wire.Request{Op: wire.OpRelease, Owner: req.Owner, Releases: []wire.ReleaseRequest{{Path: req.Locks[0].Path}}}, false)
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
		w.fail("client %d #%d: key %s brought token %d and then %d", call.c.index, call.id, call.req.Key, was, res.Token)
	}
	k.taken[call.req.Key] = res.Token
}

// keyedRelease lets go of a path with a key. Once that is answered, the same again does
// nothing, whatever the owner has taken since.
func (c *simClient) keyedRelease(owner, path string) {
	key := "let " + owner + path
	if c.keys == nil {
		c.keys = make(map[string]bool)
	}
	done, asked := c.keys[key]
	if asked && !done {
		return // it may be carried out yet
	}
	if !asked {
		c.keys[key] = false
	}
	c.ask(&wire.Request{Op: wire.OpRelease, Owner: owner, Key: key, Releases: []wire.ReleaseRequest{{Path: path}}}, false)
}
