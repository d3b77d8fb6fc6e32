package groups

import (
	"fmt"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// What clients of the simulation do together with a move, or a fault, within the same milliseconds.

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
				o.ask(&wire.Request{Op: wire.OpRelease, Owner: owner, Releases: []wire.ReleaseRequest{{Path: path}}},
					false)
				o.let = o.last
			}
		})
	}
}

// pair has a client let go of two locks with one request, and take one of them, in one write: in either order, while
// the namespace of that one is made or unmade.
func (c *simClient) pair(late *simNode, after time.Duration, n int) {
	owner, stays, moves := fmt.Sprintf("o%ds", c.index), fmt.Sprintf("m:/x/s/%d", c.index),
		fmt.Sprintf("%s/s/%d", simMover, c.index)
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
	other := c.another(n[1])
	if other == nil {
		return
	}
	path := fmt.Sprintf("w:/%d/%d", n[2]%4, c.index)
	mine, theirs := fmt.Sprintf("o%dw", c.index), fmt.Sprintf("o%dv", other.index)
	micros := func(n int) time.Duration { return time.Duration(n) * time.Microsecond }
	other.take(theirs, path)
	w.after(20*time.Millisecond, func() {
		if c.dead {
			return
		}
		call := c.waitFor(mine, path)
		w.after(20*time.Millisecond, func() {
			if n[0]/8%2 == 0 { // what is asked meanwhile meets in one entry of the next leader
				w.logs[w.shards[n[0]/16%len(w.shards)]].elect(nil)
			}
			c.cancel(call)
			w.after(micros(n[3]%4000), func() { other.lets(theirs, path) })
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
			c.lets(mine, path)
		}
	})
}

// cutOff has a client wait for another's lock through a node that does not lead, and the leader is cut off while it is
// asked. It is back when it has given up what was under way to it; the other lets go after that.
func (c *simClient) cutOff(n [6]int) {
	w := c.w
	other := c.another(n[1])
	if other == nil {
		return
	}
	path := fmt.Sprintf("w:/%d/c%d", n[2]%4, c.index)
	mine, theirs := fmt.Sprintf("o%dc", c.index), fmt.Sprintf("o%de", other.index)
	l := w.logAbout(path)
	other.take(theirs, path)
	w.after(30*time.Millisecond, func() {
		if c.dead || !l.valid() || len(w.cut) > 0 {
			return
		}
		leader := l.leader
		c.goesBy(leader)
		c.waitFor(mine, path)
		w.after(time.Duration(50+n[3]/32%2000)*time.Microsecond, func() { w.split(1 << leader.index) })
		w.after(time.Duration(9000+n[5]%5000)*time.Millisecond, w.heal)
		w.after(time.Duration(13_000+n[4]/32%5000)*time.Millisecond, func() { other.lets(theirs, path) })
		w.after(22*time.Second, func() {
			if !c.dead {
				c.ask(&wire.Request{Op: wire.OpInspectPath, Path: path}, false)
				c.lets(mine, path)
			}
		})
	})
}

// throng has a client wait for another's lock through a node that does not lead, for more owners than a group takes
// requests of at once where few are taken; and ask for locks beside that in one write. Then another node leads, or the
// connection between the two nodes breaks. The other lets go, and what each has is looked at.
func (c *simClient) throng(n [6]int) {
	w := c.w
	other := c.another(n[1])
	if other == nil {
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
	l := w.logAbout(path)
	other.take(theirs, path)
	w.after(30*time.Millisecond, func() {
		if c.dead || !l.valid() {
			return
		}
		leader := l.leader
		c.goesBy(leader)
		for i := range waits {
			ask(time.Duration(i)*8*time.Millisecond, c, func() {
				asked[i] = c.waitFor(mine(i), path)
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
				if node != leader && node != at && l.reps[node.index] != nil && node.node != nil && !node.witness &&
					w.reach(l.leader, node) {
					l.elect(node)
					return
				}
			}
		})
		ask(2*time.Second, other, func() { other.lets(theirs, path) })
		for i := range waits { // who was refused has nothing to give back
			ask(time.Duration(3000+i*200)*time.Millisecond, c, func() {
				if asked[i] != nil && (asked[i].ok || c.open[asked[i].id] != nil) {
					c.ask(&wire.Request{Op: wire.OpInspectPath, Path: path}, false)
					c.lets(mine(i), path)
				}
			})
		}
		for i := range beside {
			ask(3*time.Second, c, func() {
				if took[i] != nil && took[i].ok {
					c.ask(&wire.Request{Op: wire.OpInspectPath, Path: also(i)}, false)
					c.lets(mine(i), also(i))
				}
			})
		}
	})
}

// another answers another client that has not too much to do, nil when that one has.
func (c *simClient) another(n int) *simClient {
	all := c.w.clients
	if o := all[(c.index+1+n%(len(all)-1))%len(all)]; !o.dead && len(o.open) <= 40 {
		return o
	}
	return nil
}

// goesBy has the client be connected to a node that does not lead.
func (c *simClient) goesBy(leader *simNode) {
	if c.conn != nil && !c.conn.gone && c.conn.node != leader {
		return
	}
	for _, node := range c.w.nodes {
		if node != leader && !node.witness && node.node != nil {
			c.connect(node)
		}
	}
}

// waitFor asks for a lock that another one has.
func (c *simClient) waitFor(owner, path string) *simCall {
	return c.ask(&wire.Request{
		Op: wire.OpAcquire, Owner: owner, TTLMillis: 3_600_000, Locks: []wire.LockRequest{{Path: path}},
		Flags:          wire.FlagWait,
		QueueTTLMillis: 20_000,
	}, false)
}

// lets gives a path back, unless the client is dead.
func (c *simClient) lets(owner, path string) {
	if !c.dead {
		c.ask(&wire.Request{Op: wire.OpRelease, Owner: owner, Releases: []wire.ReleaseRequest{{Path: path}}}, false)
	}
}

// logAbout is the log that a path is in.
func (w *world) logAbout(path string) *simLog {
	n := w.nodes[len(w.nodes)-1].node // the witness
	return w.logs[n.homes[n.groupOf(n.routes.Load().Resolve(path))]]
}
