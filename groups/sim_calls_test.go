package groups

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// Calls of gRPC and HTTP in the simulation, as compat makes them: each node has a face, which makes sessions for its
// calls (Node.NewSession), uses them for one call after the other, and takes back what a call was granted whose caller
// has gone. Callers come back with nothing: when the node is killed their calls are over with its process.

// simFace is the face of one process of a node.
type simFace struct {
	node  *simNode
	life  int
	made  uint64
	idle  []*simServed
	calls []*simServedCall // not over
}

// simServed is a session of a face.
type simServed struct {
	wire.Session
	last uint64
	uses int
}

// simServedCall is a call, or a release that takes one back.
type simServedCall struct {
	face  *simFace
	of    *simServed
	id    uint64
	req   *wire.Request
	stake *simStake
	done  chan struct{} // it is answered
	gone  chan struct{} // its caller has gone
	left  bool
	res   wire.Result
}

func (n *simNode) newFace() *simFace { return &simFace{node: n, life: n.life} }

// take answers a session for one call, and the call's id, as compat does: mostly one that was used before.
func (f *simFace) take() (*simServed, uint64) {
	w := f.node.w
	var s *simServed
	if len(f.idle) > 0 && w.chance(0.5) {
		s, f.idle = f.idle[0], f.idle[1:]
	} else {
		f.made++
		s = &simServed{Session: wire.Session{ID: f.node.node.NewSession(), Epoch: 1, Window: 4}}
		binary.BigEndian.PutUint64(s.ID[8:], w.rng.Uint64()) // its random part
	}
	s.uses = 2
	s.last++
	return s, s.last
}

func (f *simFace) put(s *simServed) {
	if s.uses--; s.uses == 0 {
		f.idle = append(f.idle, s)
	}
}

// serve hands a call to the node.
func (c *simServedCall) serve() {
	body, nargs := wire.AppendArgs(nil, c.req)
	wc := &wire.Call{ID: c.id, Op: c.req.Op, NArgs: nargs, Body: body, Req: c.req, Session: &c.of.Session, To: c}
	c.face.node.node.Serve([]*wire.Call{wc})
}

// Reply implements wire.Replier.
func (c *simServedCall) Reply(wc *wire.Call) {
	select {
	case c.done <- struct{}{}:
		c.res = wc.Res
	default:
		c.face.node.w.fail("a call of %s is answered twice: %s", c.req.Owner, answerOf(&wc.Res))
	}
}

// Queued implements wire.Replier.
func (c *simServedCall) Queued(*wire.Call, *wire.Result) {}

// Flush implements wire.Replier.
func (c *simServedCall) Flush() {}

// alive says that the process still runs which the call came to.
func (f *simFace) alive() bool { return f.node.life == f.life && f.node.node != nil }

// call has a caller ask a node, and told is called with the answer that it hears.
func (w *world) call(n *simNode, req *wire.Request, s *simStake, told func(*wire.Result)) {
	f := n.face
	if n.node == nil || n.halting {
		return
	}
	w.count.calls++
	w.note("call at node %d: %s", n.index, describe(&simCall{req: req}))
	c := &simServedCall{face: f, req: req, stake: s, done: make(chan struct{}, 1), gone: make(chan struct{})}
	if s != nil {
		s.call = c
	}
	w.after(w.between(20*time.Microsecond, 500*time.Microsecond), func() {
		n.awake(func() {
			if !f.alive() || n.halting || c.left {
				return
			}
			c.of, c.id = f.take()
			f.calls = append(f.calls, c)
			(&simTasks{w, n, f.life}).run(func() {
				c.run(told)
				f.calls = slices.DeleteFunc(f.calls, func(o *simServedCall) bool { return o == c })
			})
		})
	})
}

// run is compat's do.
func (c *simServedCall) run(told func(*wire.Result)) {
	f := c.face
	w, tasks := f.node.w, f.node.node.tasks
	c.serve()
	if tasks.wait(forever, c.done, c.gone) == 1 {
		c.undo(false)
		f.put(c.of)
		return
	}
	f.put(c.of) // the answer's
	ok := c.res.Code == wire.OK && c.res.Status == wire.StatusOK
	if !c.left {
		life := f.life
		w.after(w.between(20*time.Microsecond, 500*time.Microsecond), func() {
			switch {
			case c.left && ok && f.alive() && f.life == life: // the filter sees that it was not taken
				c.of.uses++
				f.calls = append(f.calls, c)
				(&simTasks{w, f.node, f.life}).run(func() {
					c.undo(true)
					f.put(c.of)
					f.calls = slices.DeleteFunc(f.calls, func(o *simServedCall) bool { return o == c })
				})
			case !c.left && told != nil:
				c.left = true // it is over
				w.note("call of %s is answered %s", c.req.Owner, answerOf(&c.res))
				told(&c.res)
			}
		})
	} else if ok {
		c.undo(true)
	}
	f.put(c.of)
}

// leave has the caller go: it cancels, or its time is over.
func (c *simServedCall) leave() {
	f := c.face
	if c.left {
		return
	}
	c.left = true
	w := f.node.w
	w.note("call of %s at node %d is given up", c.req.Owner, f.node.index)
	w.after(w.between(20*time.Microsecond, 500*time.Microsecond), func() {
		f.node.awake(func() {
			if f.alive() {
				close(c.gone)
			}
		})
	})
}

// undo is compat's takeBack.
func (c *simServedCall) undo(answered bool) {
	f := c.face
	node, tasks := f.node.node, f.node.node.tasks
	if c.req.Op != wire.OpAcquire {
		return
	}
	if c.stake != nil {
		c.stake.let = true
	}
	r := &simServedCall{face: f, of: c.of, done: make(chan struct{}, 1)}
	r.req = &wire.Request{Op: wire.OpRelease, Owner: c.req.Owner, Target: c.id}
	for _, l := range c.req.Locks {
		r.req.Releases = append(r.req.Releases, wire.ReleaseRequest{Path: l.Path, Mode: l.Mode})
	}
	next := func() {
		c.of.last++
		r.id = c.of.last
	}
	next()
	ends := f.node.w.now + time.Duration(c.req.TTLMillis+c.req.QueueTTLMillis)*time.Millisecond
	released, was := false, answered
	defer func() {
		if answered && !was {
			f.put(c.of) // the answer's
		}
	}()
	for pause := time.Second; ; pause = min(2*pause, 30*time.Second) {
		if !released {
			r.serve()
			tasks.wait(forever, r.done)
			switch r.res.Code {
			case wire.OK:
				released = true
			case wire.Unavailable, wire.DeadlineExceeded, wire.ResourceExhausted:
			default:
				return
			}
		} else if !answered {
			node.Cancel(&c.of.Session, c.id)
		}
		if !answered && tasks.wait(pause, c.done) == 0 {
			answered = true
			if c.res.Code != wire.OK && c.res.Code != wire.DeadlineExceeded {
				return
			}
			if released && c.res.Code == wire.OK {
				next()
				released = false
				continue
			}
		}
		if released && answered || f.node.w.now > ends {
			return
		}
		if answered {
			tasks.wait(pause)
		}
	}
}

// leaves is compat's Leave: what waits is ended as the node is stopped.
func (f *simFace) leaves() {
	for _, c := range f.calls {
		if !c.left && c.req.Flags&wire.FlagWait != 0 {
			if c.stake != nil {
				c.stake.ended = true
			}
			f.node.node.Cancel(&c.of.Session, c.id)
		}
	}
}

// die has the calls be over with their process.
func (f *simFace) die() {
	w := f.node.w
	for _, c := range f.calls {
		if c.left = true; c.stake == nil {
			continue
		}
		s := c.stake
		s.over, s.died, s.session = true, w.now, c.of.ID
		w.note("call of %s is over with node %d's process", s.owner, f.node.index)
	}
	f.calls = nil
}

// What nodes get to know of each other's processes, in place of gossip and of the ends of connections
// (failed_leader.go, sightings.go). What comes with commands on a connection of a later process is the node's own.

// fell has the others notice that a node's process has ended: their connections to it end, and nobody listens there any
// more, unless it is back by then, or they do not reach its machine.
func (n *simNode) fell() {
	w := n.w
	for _, o := range w.nodes {
		if o == n || o.witness || o.node == nil {
			continue
		}
		late := w.between(0, 50*time.Millisecond)
		if w.chance(0.2) {
			late = w.between(0, 6*time.Second)
		}
		life := o.life
		refused := func() bool { return n.node == nil && w.reach(o, n) && o.life == life && o.node != nil }
		w.after(late, func() {
			starts := o.sighted[n.host]
			o.awake(func() {
				if !refused() {
					return
				}
				w.after(w.between(20*time.Millisecond, 60*time.Millisecond), func() {
					o.awake(func() {
						if refused() && !o.hears(n) {
							w.note("node %d finds that nobody listens at node %d, process %d", o.index, n.index, starts)
							o.node.processOver(n.host, starts)
						}
					})
				})
			})
		})
	}
}

// hears says that a connection is open here that another node has made.
func (n *simNode) hears(from *simNode) bool {
	n.accepted = slices.DeleteFunc(n.accepted, func(e *simEnd) bool { return !e.alive() })
	return slices.ContainsFunc(n.accepted, func(e *simEnd) bool { return e.other.node == from })
}

// rose has nodes hear of each other's processes by gossip: soon, late, or not while they do not reach each other.
func (n *simNode) rose() {
	if n.sighted = make(map[string]uint64); n.witness {
		return
	}
	for _, o := range n.w.nodes {
		if o != n && !o.witness && o.node != nil {
			o.gossips(n)
			n.gossips(o)
		}
	}
}

// gossips has a node hear of another one's process.
func (n *simNode) gossips(of *simNode) {
	w := n.w
	late := w.between(0, 2*time.Second)
	if w.chance(0.3) {
		late = w.between(0, 30*time.Second)
	}
	life, its, starts := n.life, of.life, of.node.id.Starts
	var hear func()
	hear = func() {
		switch {
		case n.life != life || of.life != its:
		case !w.reach(n, of) || of.still():
			w.after(time.Second, hear)
		default:
			n.awake(func() {
				if n.life == life && n.node != nil {
					n.sighted[of.host] = starts
					n.node.processKnown(of.host, starts)
				}
			})
		}
	}
	w.after(late, hear)
}

// knows lists the calls that are over of which the node knows.
func (n *simNode) knows() (over []*simStake) {
	for _, s := range n.w.stakes {
		if s.over && n.node.processes.over(s.session) {
			over = append(over, s)
		}
	}
	return over
}
