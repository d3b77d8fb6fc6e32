package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/cluster"
	"github.com/pathlockd/pathlockd/bench/lab/history"
	"github.com/pathlockd/pathlockd/bench/session"
	"github.com/pathlockd/pathlockd/wire"
)

// How patient clients are.
const (
	// answerWithin is how long a client waits on one connection for the answer to what does
	// not wait in the queue.
	answerWithin = 6 * time.Second
	// repeatWithin is how long it goes on asking the same, here and there.
	repeatWithin = 15 * time.Second
	// pollWithin is how long it polls while things are broken.
	pollWithin = 10 * time.Second
	// stuckAfter is how long who waits may wait once nothing is broken and nobody begins
	// anything new: leases of clients that went away, and places in the queue, run out.
	stuckAfter = time.Minute
	// movesAfter is how long an open call of a client that moves about waits at one node, so many times: less
	// than most pauses of a node.
	movesAfter  = time.Second
	movesAtMost = 4
	breath      = 25 * time.Millisecond
	reconnect   = 40 * time.Millisecond
)

// client is one client of the cluster.
type client struct {
	e      *episode
	number int
	node   int
	s      *session.Session
	conn   cluster.Conn
	turn   turn
	owner  string
	token  int64
}

// run takes turns until the episode settles.
func (c *client) run() {
	defer c.hangUp()
	c.s = session.New()
	for n := 0; !c.e.settling(); n++ {
		c.turn = planTurn(c.e.cfg.Seed, c.e.number, c.number, n, c.e.cfg.Clients)
		c.node = c.turn.node % c.e.cluster.Nodes()
		c.hangUp() // each turn begins at its own node
		c.owner, c.token = fmt.Sprintf("c%d.%d.%d", c.e.number, c.number, n), 0
		c.play()
		c.pause(breath)
	}
}

func (c *client) hangUp() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// pause lets time pass, up to a limit.
func (c *client) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.e.ctx.Done():
	}
}

// op is an operation of the turn's owner on its paths.
func (c *client) op(kind history.Kind) history.Op {
	t := &c.turn
	return history.Op{
		Client: c.number, Kind: kind, Owner: c.owner, Namespace: c.e.spaces[t.space].name, Paths: t.paths,
		Mode: t.mode, Permits: t.permits, TTL: t.ttl, QueueTTL: t.queueTTL,
	}
}

// play carries the turn out.
func (c *client) play() {
	t := &c.turn
	switch t.style {
	case look:
		c.look(t.paths[0])
		return
	case change:
		op := c.op(history.SetPolicy)
		op.Owner, op.Paths, op.Algorithm = "", nil, t.rules
		c.do(op, &wire.Request{Op: wire.OpSetPolicy, Namespace: op.Namespace, Algorithm: t.rules})
		return
	case force:
		c.force()
		return
	case poll, wait, once:
	}
	if t.beside != nil {
		c.e.owners.set(c.number, c.owner, t.space, t.beside.space)
	} else {
		c.e.owners.set(c.number, c.owner, t.space)
	}
	if t.style == wait {
		c.e.listener.follow(c.owner, c.e.spaces[t.space].name)
		defer c.e.listener.ended(c.owner)
	}
	if !c.acquire() {
		return
	}
	if t.beside != nil {
		c.beside()
	}
	if !c.use() || t.crash {
		return
	}
	c.pause(t.think)
	c.release(t.all)
}

// use takes the turn's steps; false when the lock is gone, or nobody knows.
func (c *client) use() bool {
	t := &c.turn
	for _, s := range t.steps {
		if c.pause(t.think); !c.step(s) {
			return false
		}
		if t.hops {
			c.hangUp()
			c.node = (c.node + 1) % c.e.cluster.Nodes()
		}
	}
	return true
}

// beside has the owner take a lock in another namespace, too, use it and give it back.
func (c *client) beside() {
	first, token := c.turn, c.token
	c.turn, c.token = *first.beside, 0
	if c.acquire() && c.use() {
		c.release(c.turn.all)
	}
	c.turn, c.token = first, token
}

// acquire gets the lock, or gives up.
func (c *client) acquire() bool {
	t := &c.turn
	began := c.e.rec.Now()
	for {
		op, flags := c.op(history.Acquire), wire.Flags(0)
		switch t.style {
		case wait:
			op.Open, flags = true, wire.FlagWait
		case once:
			op.NoQueue, flags = true, wire.FlagNoQueue
		case poll, look, change, force:
		}
		got := c.do(op, c.acquireRequest(flags))
		switch {
		case got.OK():
			c.token = got.Token
			if got.Open && got.Placed > 0 && got.Asks == 1 {
				c.e.listener.granted(c.owner, got.Namespace, got.Token, got.Call)
			}
			return true
		case got.Outcome == history.Unknown || got.OKThenLost():
			return false
		case t.style == once && got.Outcome == history.Answered:
			return false
		}
		if c.e.ctx.Err() != nil {
			return false
		}
		now := c.e.rec.Now()
		if settled := c.e.settled(); settled > 0 {
			if now > max(settled, began)+stuckAfter {
				c.e.rec.Stuck(fmt.Sprintf("%s asks for %v since %.3fs, all is well since %.3fs, and it has not got "+
					"them at %.3fs: code %v, %v by %s",
					c.owner, t.paths, began.Seconds(), settled.Seconds(), now.Seconds(), got.Code, got.Reason,
					got.Blocker))
				return false
			}
		} else if now > began+pollWithin {
			if !t.crash {
				c.release(true)
			}
			return false
		}
		c.pause(c.turn.pace)
	}
}

func (c *client) acquireRequest(flags wire.Flags) *wire.Request {
	t := &c.turn
	req := &wire.Request{
		Op: wire.OpAcquire, Owner: c.owner, TTLMillis: uint64(t.ttl.Milliseconds()),
		QueueTTLMillis: uint64(t.queueTTL.Milliseconds()), Flags: flags,
	}
	for _, p := range t.paths {
		req.Locks = append(req.Locks, wire.LockRequest{Path: p, Mode: t.mode, Permits: t.permits})
	}
	return req
}

// step does something with the lock; false when it is gone, or nobody knows.
func (c *client) step(s step) bool {
	t := &c.turn
	fenced := t.mode == wire.ModeWrite && t.permits == 0
	switch {
	case s == renew:
		op := c.op(history.Renew)
		return c.do(op, &wire.Request{
			Op: wire.OpRenew, Owner: c.owner, TTLMillis: uint64(t.ttl.Milliseconds()), Domains: []string{op.Namespace},
		}).OK()
	case s == assert && fenced:
		op := c.op(history.Assert)
		op.Asked = c.token
		return c.do(op, &wire.Request{Op: wire.OpAssertFencing, Owner: c.owner, Token: c.token, Paths: t.paths}).OK()
	case s == access && fenced:
		r := c.e.resource
		if base, ok := r.read(t.paths[0], c.owner, c.token); ok {
			c.pause(t.think)
			r.write(t.paths[0], c.owner, c.token, base)
		}
		return true
	case s == again:
		op := c.op(history.Acquire)
		op.NoQueue = true
		got := c.do(op, c.acquireRequest(wire.FlagNoQueue))
		if got.OK() {
			c.token = got.Token
		}
		return got.OK()
	}
	return true
}

// release gives the paths back, or everything in the namespace.
func (c *client) release(all bool) {
	op, req := c.op(history.Release), &wire.Request{Op: wire.OpRelease, Owner: c.owner}
	for _, p := range c.turn.paths {
		req.Releases = append(req.Releases, wire.ReleaseRequest{Path: p, Mode: c.turn.mode})
	}
	if all {
		op.Kind, req = history.Clear, &wire.Request{Op: wire.OpReleaseAll, Owner: c.owner,
			Domains: []string{op.Namespace}}
	}
	// What surely was not done is asked again; the lease ends it in any case.
	for range 3 {
		if c.do(op, req).Outcome != history.Refused {
			return
		}
		c.pause(breath)
	}
}

// force takes everything from another client, in all its namespaces. When it was refused
// there, it may have been carried out in one of several.
func (c *client) force() {
	owner, in := c.e.owners.get(c.turn.victim)
	if owner == "" {
		return
	}
	op := c.op(history.Clear)
	op.Owner, op.Paths = owner, nil
	var others []*history.Op
	for _, space := range in[1:] {
		op.Namespace = c.e.spaces[space].name
		others = append(others, c.e.rec.Begin(op))
	}
	op.Namespace = c.e.spaces[in[0]].name
	got := c.ending(op, &wire.Request{Op: wire.OpForceRelease, Owner: owner}, len(others) > 0)
	for _, o := range others {
		o.Node, o.Code, o.Outcome = got.Node, got.Code, got.Outcome
		c.e.rec.End(o)
	}
}

// look records what a path looks like.
func (c *client) look(path string) *history.Op {
	op := c.op(history.Look)
	op.Owner, op.Paths, op.Mode, op.Permits, op.TTL, op.QueueTTL = "", []string{path}, 0, 0, 0, 0
	return c.do(op, &wire.Request{Op: wire.OpDescribe, Path: path, Page: wire.MaxDescribePage})
}

// do asks something and records it: of one node after another, under the same id, until it
// is answered or the client gives up on it.
func (c *client) do(op history.Op, req *wire.Request) *history.Op { return c.ending(op, req, false) }

// ending is do; what is spread over namespaces may have been done in some when it was
// refused.
func (c *client) ending(op history.Op, req *wire.Request, spread bool) *history.Op {
	rec := c.e.rec
	o := rec.Begin(op)
	defer func() {
		if spread && o.Outcome == history.Refused {
			o.Outcome = history.Unknown
		}
		rec.End(o)
	}()
	id := c.s.Next()
	for asked := false; ; {
		o.Node = c.node
		res, err := c.ask(id, req, o)
		if err == nil {
			if outcome(o, res); o.Outcome == history.Refused && asked && !final(res.Code) {
				o.Outcome = history.Unknown // this time it was refused; what became of it before, nobody said
			}
			if o.Outcome != history.Unknown {
				return o
			}
			asked = true
		} else {
			asked = asked || c.conn != nil // else nobody was reached
			c.hangUp()
			c.node = (c.node + 1) % c.e.cluster.Nodes()
		}
		if c.e.rec.Era() != o.Era {
			return o // who was asked is no more, and the cluster that there is now is not asked
		}
		limit := o.Call + repeatWithin
		if o.Open {
			limit = history.Forever
			if settled := c.e.settled(); settled > 0 {
				limit = max(settled, o.Call) + stuckAfter
			}
		}
		switch late := rec.Now() > limit; {
		case late && o.Open:
			rec.Stuck(fmt.Sprintf("%s waits for %v since %.3fs in an open call, all is well since %.3fs, and it has "+
				"no answer: %v",
				o.Owner, o.Paths, o.Call.Seconds(), c.e.settled().Seconds(), err))
			return o
		case late, c.turn.fickle && o.Kind != history.SetPolicy, c.e.ctx.Err() != nil:
			return o
		}
		c.pause(reconnect)
	}
}

// errAbandoned says that the cluster that was to be asked is no more.
var errAbandoned = errors.New("the cluster was abandoned")

// ask asks once.
func (c *client) ask(id uint64, req *wire.Request, o *history.Op) (*wire.Result, error) {
	ctx, cancel := context.WithTimeout(c.e.ctx, answerWithin)
	if o.Open {
		cancel()
		ctx, cancel = context.WithCancel(c.e.ctx)
		if c.turn.hops && o.Asks < movesAtMost { // its session goes on elsewhere, whatever its node does meanwhile
			cancel()
			ctx, cancel = context.WithTimeout(c.e.ctx, movesAfter)
		}
		stop := context.AfterFunc(c.e.drained, cancel)
		defer stop()
	}
	defer cancel()
	if c.conn == nil {
		conn, err := c.e.cluster.Dial(ctx, c.node, c.s)
		if err != nil {
			return nil, err
		}
		c.conn = conn
	}
	if c.e.rec.Era() != o.Era {
		return nil, errAbandoned
	}
	if !o.Open {
		return c.conn.Ask(ctx, id, req, nil)
	}
	o.Asks++
	asks := o.Asks
	res, err := c.conn.Ask(ctx, id, req, func(int64) { c.e.rec.Place(o, asks) })
	if err != nil && ctx.Err() != nil {
		c.e.rec.Leave(o, asks) // it is the client that hangs up, not a node that ends
	}
	return res, err
}
