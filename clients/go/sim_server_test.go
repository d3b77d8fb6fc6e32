package pathlockd

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// simServer is the servers of a cluster in a synctest bubble: the real rules of locking
// (package engine) and the real codec, with nodes, sessions and connections as
// PROTOCOL.md tells them. Its log is a lock, and takes no time; what takes time is the
// way to it.
type simServer struct {
	start time.Time
	rate  float64 // of its lease clock against the bubble's

	mu       sync.Mutex
	rnd      *rand.Rand
	state    *engine.State
	out      engine.Output
	routes   *wire.Routes
	sessions map[engine.Session]*simSession
	open     map[engine.Caller]*simConn // who is to be told of a wait's end
	nodes    []*simNode
	version  uint64
	leaders  []string // by log
	slow     time.Duration
	refusing bool         // no log takes anything
	unsure   bool         // some requests are answered that nobody knows what became of them
	page     int          // most that is listed at once; 0: as much as is asked for
	slept    atomic.Int64 // for how long all clients' machines have, while the servers went on
	// unbinds is how much longer an Unbind takes than what comes after it, which is not ordered behind it.
	unbinds time.Duration
	delayed map[string]bool                   // owners of whom an acquire came to the logs late
	picky   func(*wire.Request) bool          // what is refused of a request that logs take otherwise; nil: nothing
	behind  func(simMoment, *simConn, string) // is called behind what an owner's client is told; nil: nothing is
	kills   []*simKill
	notes   []string
}

// simSession is what the log remembers of a session.
type simSession struct {
	last    int64
	epoch   uint64
	settled uint64
	answers map[uint64]wire.Result
}

// simNode is one server.
type simNode struct {
	s      *simServer
	name   string
	up     bool
	limits wire.Limits // of each connection
	stalls time.Time   // until when its way to the logs takes, while it answers by itself
	conns  map[*simConn]struct{}
	on     map[engine.Session]*simConn
}

const (
	simLogs    = 4
	simRepeat  = 60_000
	simUnheard = 10_000           // ms for which a wait keeps its place of which its client was told that nobody knows
	simSilent  = 30 * time.Second // after so long without an acknowledgement a client is given up
)

var simLimits = wire.Limits{
	FrameBytes: wire.MaxFrameBytes, InFlight: 64, Waiting: 64, Subscriptions: 64, BoundOwners: 64,
	RepeatMillis: simRepeat, Answers: 1024,
}

func newSimServer(rnd *rand.Rand, nodes int) *simServer {
	s := &simServer{
		start: time.Now(), rate: 1 + (rnd.Float64()-0.5)/1000, rnd: rnd,
		state:  engine.New(engine.DefaultConfig(), nil, nil),
		routes: wire.NewRoutes(1, 1, simRoots), sessions: make(map[engine.Session]*simSession),
		open: make(map[engine.Caller]*simConn),
	}
	for i := range nodes {
		s.nodes = append(s.nodes, &simNode{
			s: s, name: fmt.Sprintf("n%d", i), up: true, limits: s.drawLimits(),
			conns: make(map[*simConn]struct{}), on: make(map[engine.Session]*simConn),
		})
	}
	for _, root := range simRoots {
		row := &wire.Request{Op: wire.OpSetRow, Namespace: root, Explicit: true}
		s.state.Apply(s.clock(), &engine.Command{Req: row, NS: root, Version: 1}, &s.out)
	}
	s.elect()
	return s
}

// drawLimits draws what a node takes of a connection, which configuration says and a restart may change.
func (s *simServer) drawLimits() wire.Limits {
	l := simLimits
	if s.rnd.IntN(3) == 0 {
		l.Waiting = 1 + s.rnd.Uint64N(2)
	}
	if s.rnd.IntN(4) == 0 {
		l.InFlight = 8
	}
	return l
}

// elect draws who leads what.
func (s *simServer) elect() {
	s.version++
	s.leaders = nil
	for range simLogs {
		s.leaders = append(s.leaders, s.nodes[s.rnd.IntN(len(s.nodes))].name)
	}
}

// note keeps what happened, to be told if something goes wrong. Called under the lock.
func (s *simServer) note(format string, args ...any) {
	const most = 400
	if len(s.notes) >= most {
		s.notes = s.notes[1:]
	}
	s.notes = append(s.notes, fmt.Sprintf("%8.3fs ", time.Since(s.start).Seconds())+fmt.Sprintf(format, args...))
}

// clock is the lease clock.
func (s *simServer) clock() engine.Clock {
	past := time.Since(s.start) + time.Duration(s.slept.Load())
	now := int64(float64(past.Microseconds()) * s.rate / 1000)
	return engine.Clock{Now: now, Wall: 1 + now}
}

// tick ends what ends with time. Called under the lock.
func (s *simServer) tick() engine.Clock {
	at := s.clock()
	for s.state.Expire(at, &s.out) {
	}
	s.told()
	return at
}

// told answers the waits that ended.
func (s *simServer) told() {
	for i := range s.out.Answers {
		a := &s.out.Answers[i]
		c := s.open[a.Caller]
		delete(s.open, a.Caller)
		s.keep(a.Caller, &a.Result)
		s.note("%x/%d: its wait ends: %v %v", a.Caller.Session[:2], a.Caller.ID, a.Result.Code, a.Result.Status)
		if c != nil {
			delete(c.open, a.Caller.ID)
			c.say(wire.AppendReply(nil, a.Caller.ID, wire.OpAcquire, &a.Result))
		}
	}
	var killed []func()
	for i := range s.out.Told {
		one := s.out.Told[i]
		for _, n := range s.nodes {
			if c := n.on[one.Session]; c != nil && n.up && c.hello != nil && c.hello.Features&wire.FeatureLeases != 0 {
				e := one.LeaseEvent
				e.Acquires = slices.Clone(e.Acquires)
				frame := wire.AppendLeaseEvent(nil, &e)
				s.note("%x is told: %v of %s", one.Session[:2], e.Kind, e.Owner)
				if e.Kind == wire.EventKilled {
					killed = append(killed, func() { s.moment(simKilled, c, e.Owner) })
					s.kills = append(s.kills, &simKill{
						owner: e.Owner, namespace: e.Namespace, client: c.hello.Client, at: time.Now(), frame: frame,
					})
				}
				for range 1 + s.rnd.IntN(2) {
					late := time.Duration(s.rnd.IntN([]int{2, 200, 4000}[s.rnd.IntN(3)])) * time.Millisecond
					if s.rnd.IntN(2) == 0 { // in one write with what was said just before
						c.say(frame)
						continue
					}
					time.AfterFunc(late, func() { c.say(frame) })
				}
				if s.rnd.IntN(8) == 0 {
					c.say(wire.AppendLeaseEvent(nil, &wire.LeaseEvent{}))
				}
			}
		}
	}
	s.out.Reset()
	for _, f := range killed {
		f()
	}
}

// keep remembers an answer for a repeat.
func (s *simServer) keep(by engine.Caller, res *wire.Result) {
	if sess := s.sessions[by.Session]; sess != nil && res.Code == wire.OK && res.Status == wire.StatusOK {
		sess.answers[by.ID] = wire.Result{Token: res.Token}
	}
}

// holds says that an owner holds a path now.
func (s *simServer) holds(owner string, p Path) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick()
	return holdsPath(s.state, s.routes, owner, p)
}

// holdsPath says that an owner holds a path.
func holdsPath(state *engine.State, routes *wire.Routes, owner string, p Path) bool {
	res := state.View().Inspect(routes.Resolve(p.Path), p.Path)
	if p.Mode == Write {
		return res.Owner == owner
	}
	return slices.Contains(res.List.Names, owner)
}

// use answers the log's session of a command, nil if it came from an earlier connection
// than the latest.
func (s *simServer) use(c *simConn, now int64) *simSession {
	sess := s.sessions[c.session]
	if sess == nil || sess.last+simRepeat <= now {
		sess = &simSession{answers: make(map[uint64]wire.Result)}
		s.sessions[c.session] = sess
	}
	if c.epoch < sess.epoch {
		return nil
	}
	sess.last, sess.epoch = now, c.epoch
	return sess
}

// apply carries a request out, and answers what to say.
func (s *simServer) apply(c *simConn, id uint64, req *wire.Request) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.tick()
	if s.refusing && req.Op != wire.OpCancel {
		return c.answer(id, req, &wire.Result{Code: wire.Unavailable, Message: "no leader"})
	}
	if s.picky != nil && s.picky(req) {
		s.note("%x/%d of %s on %s: %v %q: refused", c.session[:2], id, c.hello.Client, c.n.name, req.Op, req.Owner)
		return c.answer(id, req, &wire.Result{Code: wire.ResourceExhausted, Message: "too much is under way"})
	}
	req = s.resolved(req)
	unsure := s.unsure && req.Op != wire.OpCancel && req.Op != wire.OpListLocks && s.rnd.IntN(3) == 0
	if unsure && s.rnd.IntN(2) == 0 { // and it came to nothing
		s.note("%x/%d of %s on %s: %v %q: lost", c.session[:2], id, c.hello.Client, c.n.name, req.Op, req.Owner)
		return c.answer(id, req, &outcomeUnheard)
	}
	sess := s.use(c, at.Now)
	if sess == nil {
		return nil
	}
	if id < sess.settled {
		panic(fmt.Sprintf("request %d is asked again though all below %d are settled", id, sess.settled))
	}
	sess.settled = max(sess.settled, req.Settled)
	cmd := &engine.Command{Req: req, Version: 1, Caller: engine.Caller{Session: c.session, ID: id}, Epoch: c.epoch}
	if cmd.Bound = req.Flags&wire.FlagBind != 0; cmd.Bound {
		cmd.Grace = int64(c.hello.Grace)
	}
	if b, ok := c.boundBy(req.Owner); ok {
		cmd.Bound, cmd.Grace = true, int64(b)
	}
	if unsure && s.later(c, cmd) {
		return c.answer(id, req, &outcomeUnheard)
	}
	waits := req.Op == wire.OpAcquire && req.Flags&wire.FlagWait != 0
	if waits {
		s.open[cmd.Caller] = c
	}
	var res wire.Result
	first, again := sess.answers[id]
	switch {
	case req.Op == wire.OpListLocks:
		res = s.list(req)
		return c.answer(id, req, &res)
	case req.Op == wire.OpAssertFencing:
		res = s.state.View().Assert(req.Owner, s.routes.Resolve(req.Paths[0]), req.Paths[0], req.Token)
		return c.answer(id, req, &res)
	case req.Op == wire.OpDescribe:
		res = s.state.View().Describe(s.routes.Resolve(req.Path), req.Path, int(req.Page))
		return c.answer(id, req, &res)
	case req.Op == wire.OpCancel:
		cancel := &engine.Command{Req: &wire.Request{Op: wire.OpCancelWait, Target: req.Target}, Caller: cmd.Caller,
			Epoch: c.epoch}
		s.state.Apply(at, cancel, &s.out)
	case again:
		cmd.NS = namespaceAsked(s.routes, req)
		res = s.state.Repeat(at, cmd, &first, &s.out)
	default:
		cmd.NS = namespaceAsked(s.routes, req)
		var ok bool
		if waits {
			res, ok = s.state.Waiting(at, cmd, &s.out)
		}
		if !ok {
			res = s.state.Apply(at, cmd, &s.out)
		}
	}
	s.note("%x/%d of %s on %s: %v %q %v%s: %v %v", c.session[:2], id, c.hello.Client, c.n.name, req.Op,
		req.Owner, cmd.NS,
		about(req), res.Code, res.Status)
	s.told()
	queued := waits && res.Code == wire.OK && res.Status == wire.StatusQueued
	if queued && !unsure {
		return wire.AppendQueued(nil, &wire.Queued{ID: id, Result: res})
	}
	delete(s.open, cmd.Caller)
	if queued { // it keeps its place for a while, as its client may ask for it again
		s.state.Apply(at, &engine.Command{
			Req: &wire.Request{Op: wire.OpCancelWait, Target: id, GraceMillis: simUnheard}, Caller: cmd.Caller,
			Epoch: c.epoch,
		}, &s.out)
	} else {
		s.keep(cmd.Caller, &res)
	}
	if unsure {
		s.note("%x/%d: and nobody hears of that", c.session[:2], id)
		res = outcomeUnheard
	}
	return c.answer(id, req, &res)
}

// outcomeUnheard is what a node says of what it has not heard of in time.
var outcomeUnheard = wire.Result{Code: wire.DeadlineExceeded, Message: "the outcome is not known"}

// answer is the reply to a request, and takes note of it. Called under the lock.
func (c *simConn) answer(id uint64, req *wire.Request, res *wire.Result) []byte {
	delete(c.open, id)
	c.bondAnswered(req.Owner, id, res.Code)
	return wire.AppendReply(nil, id, req.Op, res)
}

// bond is what a bind or an unbind says of an owner, from when it is asked.
type simBond struct {
	id    uint64
	grace uint64
	off   bool // it was an unbind
}

// bind takes note of one. Called under the lock.
func (c *simConn) bind(id uint64, req *wire.Request) {
	if slices.ContainsFunc(c.bound[req.Owner], func(b simBond) bool { return b.id == id }) {
		return
	}
	c.bound[req.Owner] = append(c.bound[req.Owner], simBond{id, req.GraceMillis, req.Op == wire.OpUnbind})
}

// boundBy is the grace of an owner that hangs on the connection.
func (c *simConn) boundBy(owner string) (grace uint64, ok bool) {
	all := c.bound[owner]
	if len(all) == 0 {
		return 0, false
	}
	last := all[len(all)-1]
	return last.grace, !last.off
}

// bondAnswered takes note of what became of it: the last that was carried out is kept, and what came later.
func (c *simConn) bondAnswered(owner string, id uint64, code wire.Code) {
	all := c.bound[owner]
	i := slices.IndexFunc(all, func(b simBond) bool { return b.id == id })
	switch {
	case i < 0:
	case code == wire.OK || code == wire.DeadlineExceeded:
		c.bound[owner] = all[i:]
	default:
		c.bound[owner] = slices.Delete(all, i, i+1)
	}
}

// namespaceAsked is that of a request's paths.
func namespaceAsked(routes *wire.Routes, req *wire.Request) string {
	switch {
	case len(req.Locks) > 0:
		return routes.Resolve(req.Locks[0].Path)
	case len(req.Releases) > 0:
		return routes.Resolve(req.Releases[0].Path)
	}
	return ""
}

// closed is what the end of a connection does to what its session waits for and holds.
func (s *simServer) closed(c *simConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.tick()
	for id := range c.waits {
		by := engine.Caller{Session: c.session, ID: id}
		if s.open[by] == c {
			delete(s.open, by)
		}
		grace := uint64(0)
		if c.waits[id] {
			grace = c.hello.Grace
		}
		s.state.Apply(at, &engine.Command{
			Req:    &wire.Request{Op: wire.OpCancelWait, Target: id, GraceMillis: grace},
			Caller: engine.Caller{Session: c.session}, Epoch: c.epoch,
		}, &s.out)
	}
	s.state.Apply(at, &engine.Command{
		Req: &wire.Request{Op: wire.OpDetach}, Caller: engine.Caller{Session: c.session}, Epoch: c.epoch,
	}, &s.out)
	s.note("%x: connection %d of %s to %s is closed", c.session[:2], c.epoch, c.hello.Client, c.n.name)
	s.told()
}

// simConn is a connection at the server's end. Its requests are carried out by one
// goroutine (work), in order; answers are written by another one.
type simConn struct {
	n       *simNode
	nc      net.Conn
	hello   *wire.Hello
	session engine.Session
	epoch   uint64
	limits  wire.Limits
	todo    chan func()
	waits   map[uint64]bool // acquires that were asked on it to wait, and whether their lease is tied

	open  map[uint64]bool      // what is not answered, and whether it waits; under the server's lock, as
	bound map[string][]simBond // by owner

	mu     sync.Mutex
	out    [][]byte
	wake   chan struct{}
	over   bool // nothing is written any more
	silent bool // its end takes nothing from the client: the server is gone
}

// accept serves a connection until it ends.
func (n *simNode) accept(nc net.Conn) {
	c := &simConn{n: n, nc: nc, todo: make(chan func(), 1024), wake: make(chan struct{}, 1),
		waits: make(map[uint64]bool),
		open:  make(map[uint64]bool), bound: make(map[string][]simBond)}
	go c.write()
	go c.work()
	c.read()
	c.stop()
	n.s.mu.Lock()
	delete(n.conns, c)
	if n.on[c.session] == c {
		delete(n.on, c.session)
	}
	n.s.mu.Unlock()
	if c.hello != nil {
		c.todo <- func() {
			c.mu.Lock()
			silent := c.silent
			c.mu.Unlock()
			if !silent {
				n.s.closed(c)
			}
		}
	}
	close(c.todo)
}

// stop ends the connection.
func (c *simConn) stop() {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	c.nc.Close()
	c.rouse()
}

func (c *simConn) rouse() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// delays takes note that an acquire of an owner came to the logs late. Its client may have given up by then the session
// that it was asked in, and what gives it back in another one have come before it: it is left to its TTL.
func (s *simServer) delays(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.delayed == nil {
		s.delayed = make(map[string]bool)
	}
	s.delayed[owner] = true
}

// ended says that the connection is over.
func (c *simConn) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// gives says that a request takes nothing.
func gives(req *wire.Request) bool {
	return req.Op == wire.OpRelease || req.Op == wire.OpReleaseAll || req.Op == wire.OpCancel || req.Op == wire.OpUnbind
}

// say sends a frame.
func (c *simConn) say(frame []byte) {
	c.mu.Lock()
	c.out = append(c.out, frame)
	c.mu.Unlock()
	c.rouse()
}

func (c *simConn) write() {
	for range c.wake {
		c.mu.Lock()
		out, over := c.out, c.over
		c.out = nil
		c.mu.Unlock()
		if _, err := c.nc.Write(slices.Concat(out...)); err != nil && !over {
			continue
		}
		if over {
			return
		}
	}
}

// work carries requests out, each after the time that it takes.
func (c *simConn) work() {
	for do := range c.todo {
		c.n.s.mu.Lock()
		wait := time.Duration(c.n.s.rnd.IntN(2000))*time.Microsecond + c.n.s.slow
		wait = max(wait, time.Until(c.n.stalls))
		c.n.s.mu.Unlock()
		time.Sleep(wait)
		do()
	}
}

func (c *simConn) read() {
	var buf []byte
	chunk := make([]byte, 4096)
	for {
		payload, size, _, err := wire.NextFrame(buf, wire.MaxFrameBytes)
		if err != nil {
			return
		}
		if size == 0 {
			n, err := c.nc.Read(chunk)
			buf = append(buf, chunk[:n]...)
			if n == 0 && err != nil {
				return
			}
			continue
		}
		own := append([]byte(nil), payload...)
		buf = buf[size:]
		req := new(wire.Request)
		id, _, _, refused := wire.DecodeRequest(own, req)
		if refused != nil {
			panic(fmt.Sprintf("the client sends what is refused: %v", refused))
		}
		if !c.take(id, req) {
			return
		}
	}
}

// take deals with one request.
func (c *simConn) take(id uint64, req *wire.Request) bool {
	reply := func(res *wire.Result) { c.say(wire.AppendReply(nil, id, req.Op, res)) }
	switch {
	case req.Op == wire.OpHello:
		return c.enter(id, req.Hello)
	case c.hello == nil:
		reply(&wire.Result{Code: wire.FailedPrecondition, Message: "say hello first"})
	case req.Op == wire.OpPing, req.Op == wire.OpUnsubscribe:
		reply(&wire.Result{})
	case req.Op == wire.OpSubscribe:
		reply(&wire.Result{Count: id, List: &wire.List{Positions: []wire.Position{{Log: 2, Index: 1}}}})
	case req.Op == wire.OpTopology:
		c.n.s.mu.Lock()
		top := c.n.topology()
		c.n.s.mu.Unlock()
		reply(&wire.Result{List: &wire.List{Topology: top}})
	default:
		c.counts(id, req)
		c.n.s.mu.Lock()
		longer := c.n.s.unbinds
		c.n.s.mu.Unlock()
		if longer > 0 && req.Op == wire.OpUnbind {
			go func() {
				time.Sleep(longer)
				if frame := c.n.s.apply(c, id, req); frame != nil {
					c.say(frame)
				}
			}()
			return true
		}
		came := time.Now()
		c.todo <- func() {
			late := time.Since(came) > 100*time.Millisecond // it, or what came before it, did not get to the logs
			if late && !gives(req) && c.ended() {
				return // a connection that has ended sends nothing to the logs any more but releases
			}
			if late && req.Op == wire.OpAcquire {
				c.n.s.delays(req.Owner)
			}
			if req.Op == wire.OpAcquire && req.Flags&wire.FlagWait != 0 {
				c.waits[id] = req.Flags&wire.FlagBind != 0
			}
			if frame := c.n.s.apply(c, id, req); frame != nil {
				c.say(frame)
				c.n.s.then(c, req)
			}
		}
	}
	return true
}

// counts takes note of a request that is asked, of which there may not be more than the limits say.
func (c *simConn) counts(id uint64, req *wire.Request) {
	c.n.s.mu.Lock()
	defer c.n.s.mu.Unlock()
	if req.Op == wire.OpBind || req.Op == wire.OpUnbind {
		c.bind(id, req)
	}
	c.open[id] = req.Op == wire.OpAcquire && req.Flags&wire.FlagWait != 0
	waits, others := 0, 0
	for _, yes := range c.open {
		if yes {
			waits++
		} else {
			others++
		}
	}
	if waits > int(c.limits.Waiting) || others > int(c.limits.InFlight) {
		panic(fmt.Sprintf("%s has %d waits and %d other requests under way, at most %d and %d are taken",
			c.hello.Client, waits, others,
			c.limits.Waiting, c.limits.InFlight))
	}
}

// topology is what the node says of the cluster. Called under the lock.
func (n *simNode) topology() *wire.Topology {
	t := &wire.Topology{Version: n.s.version, Self: n.name, GroupLogs: simLogs, Segments: 1,
		Leaders: slices.Clone(n.s.leaders)}
	for i := range simLogs {
		t.LogOf = append(t.LogOf, uint64(i))
	}
	for _, other := range n.s.nodes {
		t.Nodes = append(t.Nodes, wire.NodeAddr{NodeID: other.name, Native: other.name + ":1"})
	}
	return t
}

// enter answers a hello.
func (c *simConn) enter(id uint64, h *wire.Hello) bool {
	s, n := c.n.s, c.n
	s.mu.Lock()
	defer s.mu.Unlock()
	copy(c.session[:], h.Session)
	c.hello, c.epoch, c.limits = h, h.Epoch, n.limits
	if old := n.on[c.session]; old != nil {
		if old.epoch >= c.epoch {
			c.hello = nil
			c.say(wire.AppendReply(nil, id, wire.OpHello, &wire.Result{Code: wire.FailedPrecondition,
				Message: "an old epoch"}))
			return true
		}
		old.bye(wire.Aborted)
	}
	if !n.up {
		return false
	}
	n.on[c.session], n.conns[c] = c, struct{}{}
	s.note("%x: connection %d of %s to %s", c.session[:2], c.epoch, h.Client, n.name)
	c.say(wire.AppendReply(nil, id, wire.OpHello, &wire.Result{List: &wire.List{Welcome: &wire.Welcome{
		Version: 1, NodeID: n.name, ClusterID: "sim", Session: append([]byte(nil), h.Session...), Epoch: h.Epoch,
		Limits:   n.limits,
		Features: h.Features & wire.FeatureLeases,
	}}}))
	s.moment(simHello, c, "")
	return true
}

// bye says goodbye and closes the connection once that is written.
func (c *simConn) bye(code wire.Code) {
	c.mu.Lock()
	c.out = append(c.out, wire.AppendGoodbye(nil, wire.Errorf(code, "the server says so")))
	c.mu.Unlock()
	c.rouse()
	time.AfterFunc(10*time.Millisecond, c.stop)
}

// crash ends a node: clients see their connections end, and lose nothing for that.
func (n *simNode) crash() {
	n.s.mu.Lock()
	all := n.leave("crashes")
	n.s.mu.Unlock()
	for _, c := range all {
		c.stop()
	}
}

// drain ends a node as one that is told to stop.
func (n *simNode) drain() {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	for _, c := range n.leave("drains") {
		c.bye(wire.Unavailable)
	}
}

// leave takes a node off, and answers its connections. Called under the lock.
func (n *simNode) leave(how string) (all []*simConn) {
	n.up = false
	for c := range n.conns {
		c.mu.Lock()
		c.silent = true
		c.mu.Unlock()
		all = append(all, c)
	}
	n.s.note("%s %s", n.name, how)
	return all
}

func (n *simNode) restart() {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	n.up, n.limits = true, n.s.drawLimits()
	n.s.note("%s is back", n.name)
}

// announce pushes the topology to everybody.
func (s *simServer) announce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		for c := range n.conns {
			c.say(wire.AppendTopology(nil, n.topology()))
		}
	}
}

// about says what a request takes and gives back, and by which request that was taken.
func about(req *wire.Request) (s string) {
	if n := len(req.Locks) + len(req.Releases); n > 4 {
		return fmt.Sprintf(" %d paths of %d", n, req.Target)
	}
	for _, l := range req.Locks {
		s += fmt.Sprintf(" +%s %v", l.Path, l.Mode)
	}
	for _, r := range req.Releases {
		s += fmt.Sprintf(" -%s %v", r.Path, r.Mode)
	}
	if req.Target != 0 {
		s += fmt.Sprintf(" of %d", req.Target)
	}
	return s
}

// list answers the page of a listing that is asked for.
func (s *simServer) list(req *wire.Request) wire.Result {
	page := int(req.Page)
	if s.page > 0 && page > 0 {
		page = min(page, s.page)
	}
	return pageOwned(s.state, req, page)
}

// pageOwned answers so many locks of what an owner holds, or all if that is 0, from where a request goes on. Its cursor
// is the place of the last that was told.
func pageOwned(state *engine.State, req *wire.Request, page int) wire.Result {
	var after engine.Owned
	if len(req.Cursor) > 0 {
		after = engine.Owned{Mode: wire.Mode(req.Cursor[0]), Path: string(req.Cursor[1:])}
	}
	v := state.View()
	all := v.Owned(req.Owner, req.Domains, after, 0)
	res := wire.Result{
		Flag: v.Alive(req.Owner, req.Domains), Done: page == 0 || len(all) <= page, List: &wire.List{Infos: all},
	}
	if !res.Done {
		last := &all[page-1]
		res.List.Infos, res.List.Cursor = all[:page], append([]byte{byte(last.Mode)}, last.Path...)
	}
	return res
}

// standStill has nothing that is asked of a node come to the logs for a while; it answers by itself.
func (n *simNode) standStill(d time.Duration) {
	n.s.mu.Lock()
	n.stalls = time.Now().Add(d)
	n.s.mu.Unlock()
}
