package groups

import (
	"fmt"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// Leases of the simulation that are followed entry by entry at the witness, each of an owner of its own in namespaces
// that nobody moves and where nobody is killed: none lasts shorter than it was told, counted from when the entry was
// proposed that granted it, and nothing is granted to a call that is over beyond what decision 0025 has.

// simStake is one acquire and what became of it.
type simStake struct {
	owner, path string
	mode        wire.Mode
	ttl, waits  time.Duration
	asked       time.Duration
	call        *simServedCall // nil: of a session of its own

	held    bool
	granted bool          // it was held at some time
	until   time.Duration // it is held at least as long
	let     bool          // its owner has asked to let go of it, or may have
	ended   bool          // its caller cancelled it

	over    bool // its process is over
	died    time.Duration
	session [wire.SessionBytes]byte
}

// quick is for how long the cluster is to be without trouble before who is over gets nothing: the grace of a wait, the
// time until the end of a connection is noticed, and that of who looks for orphans, all of them once.
const quick = reattachGrace + 6*time.Second + 4*time.Second

// least is how long a time of the lease clock takes at least: machines' clocks differ by half a percent.
func least(d time.Duration) time.Duration { return d - d/150 - 5*time.Millisecond }

// simProposed is what is known of an entry of a log: when it was proposed, and which calls its node knew to be over.
type simProposed struct {
	at   time.Duration
	knew []*simStake
}

// stake notes an acquire.
func (w *world) stake(req *wire.Request) *simStake {
	l := req.Locks[0]
	s := &simStake{
		owner: req.Owner, path: l.Path, mode: l.Mode, ttl: time.Duration(req.TTLMillis) * time.Millisecond,
		waits: time.Duration(req.QueueTTLMillis) * time.Millisecond, asked: w.now,
	}
	if w.staked == nil {
		w.staked = make(map[string]*simStake)
	}
	w.stakes, w.staked[req.Owner] = append(w.stakes, s), s
	return s
}

// lets takes note that what an owner has is let go of, or may be.
func (w *world) lets(owner string) {
	if s := w.staked[owner]; s != nil {
		s.let = true
	}
}

// followed looks at what an entry did, right after the witness has applied it.
func (k *checks) followed(w *world, r *simRep) {
	n := r.node.node
	by := r.log.proposed[r.applied-1]
	routes := n.routes.Load()
	w.stakes = slices.DeleteFunc(w.stakes, func(s *simStake) bool {
		gone := w.now > s.asked+s.waits+s.ttl+2*time.Minute
		if gone {
			delete(w.staked, s.owner)
		}
		return gone
	})
	for _, s := range w.stakes {
		ns := routes.Resolve(s.path)
		g := n.groupOf(ns)
		if n.homes[g] != r.log.shard {
			continue
		}
		res := r.m.View(g).Inspect(ns, s.path)
		held := res.Owner == s.owner || s.mode == wire.ModeRead && res.List != nil && slices.Contains(res.List.Names,
			s.owner)
		switch {
		case held && !s.held:
			s.granted = true
			s.until = by.at + least(s.ttl)
			w.note("%s holds %s, until %v at least", s.owner, s.path, s.until)
			if !s.over {
				break
			}
			w.count.late++
			if slices.Contains(by.knew, s) {
				w.fail("%s is granted %s: its process is over since %v, and who proposed that knew it", s.owner,
					s.path, s.died)
			}
			if since := w.now - max(s.died, w.trouble); since > quick {
				w.fail("%s is granted %s, whose process is over since %v, %v after the last trouble", s.owner, s.path,
					s.died, since)
			}
		case !held && s.held && !s.let && w.now < s.until:
			w.fail("the lease of %s on %s is over, which is to last until %v at least", s.owner, s.path, s.until)
		}
		s.held = held
	}
}

// heard compares a call's answer with what was seen.
func (k *checks) heard(w *world, s *simStake, res *wire.Result) {
	switch {
	case res.Code == wire.OK && res.Status == wire.StatusOK && !s.granted:
		w.fail("%s is answered that it holds %s, and never did", s.owner, s.path)
	case s.ended || s.waits == 0:
	case res.Code == wire.Cancelled:
		w.fail("the wait of %s for %s is answered %s, and nobody has cancelled it", s.owner, s.path, answerOf(res))
	case res.Code == wire.DeadlineExceeded && res.Cause == wire.CauseWaitOver && w.now < s.asked+least(s.waits):
		w.fail("the wait of %s for %s is over %v after it was asked for, and not after %v", s.owner, s.path,
			w.now-s.asked, s.waits)
	}
}

// overAtTheEnd fails when something of calls is left once nobody has any.
func (k *checks) overAtTheEnd(w *world) {
	for _, s := range w.stakes {
		if s.held && (s.over || s.ended) && w.now > s.until+10*time.Second {
			w.fail("%s still holds %s", s.owner, s.path)
		}
	}
	for _, x := range w.nodes {
		if x.node == nil {
			continue
		}
		left := &x.node.forwards.left
		left.mu.Lock()
		for _, o := range left.list {
			if o.l.leads() && o.l.held.Load() == o.term && x.node.processes.host(o.caller.Session) != "" {
				w.fail("node %d keeps in mind that a wait of node %s may have nobody", x.index, o.host)
			}
		}
		left.mu.Unlock()
		if !x.witness {
			continue
		}
		for _, shard := range w.shards {
			for _, g := range w.logs[shard].reps[x.index].m.Order {
				for _, c := range g.State.OpenCalls() {
					w.fail("log %d, group %d: request %d of session %x still waits", shard, g.Number, c.ID, c.Session)
				}
			}
		}
	}
}

// Paths of calls.
func simCallPath(n int) string { return fmt.Sprintf("c:/%d/%d", n%3, n/3%2) }

// callAcquire is an acquire of a new owner.
func (w *world) callAcquire(kind string, n [6]int) *wire.Request {
	w.callers++
	req := &wire.Request{
		Op: wire.OpAcquire, Owner: fmt.Sprint(kind, w.callers), TTLMillis: []uint64{1500, 1500, 4000, 20_000}[n[1]%4],
		Locks: []wire.LockRequest{{Path: simCallPath(n[2])}}, Flags: wire.FlagNoQueue,
	}
	if n[3]%3 == 0 {
		req.Locks[0].Mode = wire.ModeRead
	}
	if n[3]/3%4 != 0 {
		req.Flags, req.QueueTTLMillis = wire.FlagWait, uint64(500+n[4]%30_000)
	}
	return req
}

// asksByCall has a caller ask a node for something, and let go of it once it has had it for a while; or it gives up.
func (w *world) asksByCall(node *simNode, req *wire.Request, n [6]int) {
	if node.node == nil || node.halting {
		return
	}
	s := w.stake(req)
	w.call(node, req, s, func(res *wire.Result) {
		w.check.heard(w, s, res)
		if res.Code == wire.OK && res.Status == wire.StatusOK && n[5]%3 != 0 { // else it runs out
			w.after(time.Duration(n[5]%3000)*time.Millisecond, func() { w.letsByCall(s) })
		}
	})
	c := s.call
	if n[5]/3%4 == 0 {
		w.after(time.Duration(n[4]%4000)*time.Millisecond, func() {
			if !c.left {
				s.ended = true
			}
			c.leave()
		})
	}
}

// letsByCall has a caller let go of what it has, at any node, until that is done.
func (w *world) letsByCall(s *simStake) {
	s.let = true
	var up []*simNode
	for _, n := range w.nodes {
		if n.node != nil && !n.halting && !n.witness {
			up = append(up, n)
		}
	}
	if len(up) == 0 {
		return // it runs out
	}
	req := &wire.Request{Op: wire.OpRelease, Owner: s.owner,
		Releases: []wire.ReleaseRequest{{Path: s.path, Mode: s.mode}}}
	w.call(up[w.rng.IntN(len(up))], req, nil, nil)
}

// asksBeside has a client with a session of its own ask for something in the same namespaces.
func (c *simClient) asksBeside(req *wire.Request, n [6]int) {
	w := c.w
	if c.dead || len(c.open) > 40 {
		return
	}
	w.stake(req)
	c.ask(req, false).then = func(call *simCall) {
		if n[5]%3 == 0 {
			w.after(time.Duration(n[5]%3000)*time.Millisecond, func() { c.letsGo(req) })
		}
	}
}

func (c *simClient) letsGo(req *wire.Request) {
	if !c.dead {
		l := req.Locks[0]
		c.ask(&wire.Request{Op: wire.OpRelease, Owner: req.Owner,
			Releases: []wire.ReleaseRequest{{Path: l.Path, Mode: l.Mode}}}, false)
	}
}

// someCall has somebody ask in the namespaces of calls.
func (c *simClient) someCall(node *simNode, n [6]int) {
	switch x := n[5] / 32 % 8; {
	case x < 4:
		c.w.asksByCall(node, c.w.callAcquire("call", n), n)
	case x < 6:
		c.asksBeside(c.w.callAcquire("own", n), n)
	default:
		c.besideEnds(node, n)
	}
}

// besideEnds has calls wait at a node for what a client has, and others behind them; the node is killed, and comes back
// or does not. About when others get to know that its process is over, locks are let go of, run out, and are asked for:
// some of them after a time in which nobody has asked for anything.
func (c *simClient) besideEnds(node *simNode, n [6]int) {
	w := c.w
	other := c.another(n[1])
	if other == nil || node.node == nil || node.halting {
		return
	}
	path := fmt.Sprintf("c:/e%d/%d", n[2]%3, c.index)
	lock := func(kind string, ttl uint64, mode wire.Mode, waits uint64) *wire.Request {
		w.callers++
		req := &wire.Request{
			Op: wire.OpAcquire, Owner: fmt.Sprint(kind, w.callers), TTLMillis: ttl, Flags: wire.FlagNoQueue,
			Locks: []wire.LockRequest{{Path: path, Mode: mode}},
		}
		if waits > 0 {
			req.Flags, req.QueueTTLMillis = wire.FlagWait, waits
		}
		return req
	}
	mode := wire.Mode(n[3] % 2) // behind a read what reads goes on when the call's end is there
	holds := lock("held", []uint64{1500, 3000, 20_000}[n[4]%3], mode, 0)
	other.asksBeside(holds, [6]int{5: 1})
	w.after(20*time.Millisecond, func() {
		for range 1 + n[5]%3 {
			w.asksByCall(node, lock("call", 20_000, wire.ModeWrite, 60_000), [6]int{5: 4})
		}
	})
	w.after(30*time.Millisecond, func() { c.asksBeside(lock("own", 1500, wire.ModeRead, 20_000), [6]int{5: 1}) })
	w.after(time.Duration(40+n[4]/3%400)*time.Millisecond, func() {
		if w.healed || w.seed%4 == 0 { // some runs have no other crashes than those that are drawn
			return
		}
		w.count.restarts++
		node.crash(n[3]/2%2 == 0)
		again := n
		again[2] = n[5] / 8 % 3000
		node.startsAgain(again)
	})
	for i := range 2 + n[3]/4%4 {
		at := time.Duration(40+n[4]/3%400)*time.Millisecond +
			time.Duration((n[1]*(i+3)/16)%4000)*time.Millisecond/time.Duration(1+i%2*40)
		w.after(at, func() {
			req := lock("own", 1500, wire.ModeWrite, 0)
			req.Locks[0].Path = fmt.Sprintf("c:/e%d/%d.%s", n[2]%3, c.index, req.Owner)
			c.asksBeside(req, [6]int{5: 1})
		})
	}
	if n[4]%3 == 2 {
		w.after(time.Duration(40+n[2]/3%4000)*time.Millisecond, func() { other.letsGo(holds) })
	}
}
