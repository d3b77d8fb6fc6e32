package groups

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// Clients of the simulation. Each has one session, which it takes from node to node as
// connections break, and asks again what is not answered, as PROTOCOL.md has clients do.
// What a client knows for certain of its owners' locks is compared with what is.

// simClient is one client.
type simClient struct {
	w     *world
	index int
	id    [wire.SessionBytes]byte
	epoch uint64
	last  uint64 // request id
	conn  *simConn
	open  map[uint64]*simCall // not answered
	known map[holding]*belief
	dead  bool
	heard time.Duration // when its last connection was known to stand
	grace uint64
	keys  map[string]bool // of releases, by whether they are known to be done
	let   uint64          // the last request that let go of what renewBehind took
	subs  []*simSub
	took  []*simCall // its last acquires for owners that are all clients' (sim_mixed_test.go)
	edge  simEdge
	yoke  struct { // the last bind or unbind of its yoked owner
		id   uint64
		conn *simConn // it was a bind, which is carried out
	}
}

// simConn is a connection of a client to a node, seen from both sides.
type simConn struct {
	c        *simClient
	node     *simNode
	life     int
	session  *wire.Session
	gone     bool // the client knows that it is
	cut      bool // nothing passes any more
	closed   bool // the node's side of it is closed
	told     bool // the handler was told so
	owes     bool // it is to be told again once its calls are answered
	inflight int
	waits    map[uint64]bool // calls that have their place, by id: not among those
	tied     bool
	bonds    map[string][]simBond // by owner
	arrives  time.Duration        // of the last request
	returns  time.Duration        // of the last answer
	subs     []*wire.Subscription // at the node
	deaf     func()               // ends that it is told of leases
	came     uint64               // highest id that arrived
}

// simCall is a request that is not answered.
type simCall struct {
	c       *simClient
	id      uint64
	req     *wire.Request
	bound   bool
	first   time.Duration // when it was sent first
	sent    time.Duration // when it was sent last
	conn    *simConn
	again   bool          // it was asked more than once
	limit   time.Duration // when it must be answered
	highest map[string]int64
	held    map[holding]uint64 // what a read looked at, and as of which request that is known
	lay     map[string]uint64  // by path that it gives back, the log that it lay in as it was asked first
	settled uint64             // the ids below it are answered
	done    bool               // its key is known to be done: it changes nothing
	spans   bool               // a release that its node knew to be about several namespaces, which is in no order
	ended   bool               // its client has cancelled it

	asserted   holding // what an assertion is about
	assertedBy uint64  // the request that it is known from, 0: not for certain

	behind   *simCall             // an acquire that was sent right before this renewal
	follower *simCall             // the renewal that was sent right behind this acquire
	ok, lost bool                 // what it was answered
	token    int64                // and of the cluster-wide counter
	then     func(taken *simCall) // it is granted
	undoes   *simCall             // a wait whose outcome is not known, and which this takes back
	yoked    bool                 // it was asked once, and its client's yoked owner was bound by then
	tries    int                  // times that it was asked again on its connection
}

func (w *world) addClient() {
	c := &simClient{
		w: w, index: len(w.clients), open: make(map[uint64]*simCall), known: make(map[holding]*belief), grace: 2000,
		keys: make(map[string]bool),
	}
	binary.BigEndian.PutUint64(c.id[:], uint64(c.index+1))
	w.clients = append(w.clients, c)
}

// connect takes the session to a node that is up, and asks again what is not answered.
func (c *simClient) connect(n *simNode) {
	w := c.w
	if n.node == nil {
		return
	}
	if c.conn != nil {
		c.drop(0)
	}
	c.epoch++
	c.conn = &simConn{c: c, node: n, life: n.life, session: &wire.Session{ID: c.id, Epoch: c.epoch, First: c.last + 1,
		Window: 256}}
	w.note("client %d connects to node %d, epoch %d", c.index, n.index, c.epoch)
	c.conn.subscribe()
	c.conn.hears()
	for _, id := range slices.Sorted(maps.Keys(c.open)) {
		call := c.open[id]
		if c.tooLate(call) {
			delete(c.open, id)
			c.answered(call, &wire.Result{Code: wire.DeadlineExceeded, Message: "its client asks no more"})
			continue
		}
		call.again = true
		for h := range c.touched(call) {
			b := c.belief(h)
			if call.stepped() { // what of the others was carried out first is not known
				b.dirty = max(b.dirty, c.last)
			}
		}
		c.send(call)
	}
}

// tooLate says that the logs may not know any more what they answered to a call: its client does not ask again.
func (c *simClient) tooLate(call *simCall) bool {
	const within = lapseRepeat * 9 / 10
	waits := call.req.Op == wire.OpAcquire && call.req.Flags&wire.FlagWait != 0
	return c.w.lapses() && (c.w.now-c.heard >= within || !waits && c.w.now-call.first >= within)
}

// stands notes that the connection stands, or did as its node stopped standing still.
func (c *simClient) stands(conn *simConn) {
	if c.heard = c.w.now; conn.node.still() {
		c.heard = conn.node.slept
	}
}

// drop gives the connection up; the node notices after a while.
func (c *simClient) drop(late time.Duration) {
	conn := c.conn
	if conn == nil || conn.gone {
		return
	}
	c.stands(conn)
	conn.gone, conn.cut = true, true
	c.w.after(late, conn.close)
}

// close is the node's side of a connection that ends.
func (conn *simConn) close() {
	conn.node.awake(func() {
		if !conn.closed && conn.node.life == conn.life && conn.node.node != nil {
			conn.closed = true
			for _, sub := range conn.subs {
				conn.node.node.Unsubscribe(sub)
			}
			conn.deaf()
			conn.tell()
		}
		conn.closed = true
	})
}

// tell tells the handler that the connection is gone, and again once its calls are answered.
func (conn *simConn) tell() {
	if conn.closed && (!conn.told || conn.owes && conn.inflight == 0) && conn.node.life == conn.life &&
		conn.node.node != nil {
		conn.told, conn.owes = true, conn.inflight > 0
		c := conn.c
		resumed := c.conn != conn && c.conn != nil && c.conn.node == conn.node && c.conn.life == conn.life
		if resumed && conn.tied {
			c.conn.tied = true
		}
		c.w.note("node %d sees client %d's epoch %d gone, tied %v, resumed %v", conn.node.index, c.index,
			conn.session.Epoch, conn.tied, resumed)
		conn.node.node.Closed(conn.session, conn.tied || conn.session.Epoch > 1, resumed)
	}
}

// shutOut closes the connection as its node stood still. Its client goes on elsewhere.
func (conn *simConn) shutOut() {
	c, w := conn.c, conn.c.w
	w.note("client %d's epoch %d is closed, its node %d stood still", c.index, conn.session.Epoch, conn.node.index)
	if !conn.gone {
		c.heard = conn.node.slept
		conn.gone, conn.cut = true, true
		w.after(w.between(100*time.Millisecond, time.Second), func() {
			if !c.dead && c.conn == conn && !w.healed {
				c.connect(w.nodes[w.rng.IntN(len(w.nodes)-1)])
			}
		})
	}
	conn.close()
}

// nodeGone tells the client that a node crashed.
func (c *simClient) nodeGone(n *simNode) {
	if c.conn != nil && c.conn.node == n && !c.conn.gone {
		c.stands(c.conn)
		c.conn.gone, c.conn.cut, c.conn.closed = true, true, true
	}
}

// ask sends a new request.
func (c *simClient) ask(req *wire.Request, bound bool) *simCall {
	w := c.w
	c.last++
	call := &simCall{c: c, id: c.last, req: req, bound: bound, first: w.now,
		lay: make(map[string]uint64, len(req.Releases))}
	for _, r := range req.Releases {
		call.lay[r.Path] = w.logOf(r.Path)
	}
	c.open[call.id] = call
	w.count.ops++
	if req.Op == wire.OpRelease {
		w.lets(req.Owner)
	}
	call.highest = w.check.tokensNow(w.nodes[len(w.nodes)-1].node.routes.Load(), req)
	call.done = req.Op == wire.OpRelease && c.keys[req.Key]
	for h := range c.touched(call) {
		b := c.belief(h)
		if len(b.open) > 0 && stepped(req.Op) {
			b.dirty = max(b.dirty, call.id) // the order of the two is not promised
		}
		b.open[call.id], b.issued = true, call.id
		if req.Key != "" {
			b.keyed = call.id
		}
	}
	if req.Op == wire.OpInspectPath {
		call.held = w.check.certainOn(w, req.Path)
	}
	c.send(call)
	return call
}

// span takes note, as a release comes to a node, that it is about several namespaces there.
func (call *simCall) span(n *Node, req *wire.Request) {
	if req.Op != wire.OpRelease || len(req.Releases) < 2 {
		return
	}
	if _, one := oneNamespace(n.routes.Load(), req.Releases); one {
		return
	}
	call.spans = true
	for h := range call.c.touched(call) {
		if b := call.c.belief(h); len(b.open) > 1 {
			b.dirty = max(b.dirty, call.c.last)
		}
	}
}

// send sends a request on the connection, if there is one.
func (c *simClient) send(call *simCall) {
	w := c.w
	conn := c.conn
	if conn == nil || conn.gone {
		return // it is sent with the next connection
	}
	call.conn, call.sent = conn, w.now
	call.yoked = c.yoke.conn == conn && !call.again
	call.settled = c.last + 1
	for id := range c.open {
		call.settled = min(call.settled, id)
	}
	call.limit = 0
	if call.req.Flags&wire.FlagWait != 0 {
		call.limit = time.Duration(call.req.QueueTTLMillis) * time.Millisecond
	}
	call.limit += w.now + conn.node.cfg.RequestTimeout
	w.note("client %d #%d %s", c.index, call.id, describe(call))
	conn.forth(func() { conn.arrive(call) })
}

// forth brings something to the node, in order, unless that is another life of it or the
// connection is closed by then.
func (conn *simConn) forth(do func()) {
	w := conn.c.w
	conn.arrives = max(conn.arrives, w.now+w.between(20*time.Microsecond, 500*time.Microsecond))
	w.at(conn.arrives, func() {
		came := w.now
		conn.node.awake(func() {
			if w.lapses() && w.now-came >= lapseStill && !conn.closed { // loop/standstill.go
				conn.shutOut()
				return
			}
			if !conn.closed && conn.node.life == conn.life && conn.node.node != nil {
				do()
			}
		})
	})
}

// arrive hands a request to the node, with all else that arrives then.
func (conn *simConn) arrive(call *simCall) {
	w := conn.c.w
	body, nargs := wire.AppendArgs(nil, call.req)
	req := new(wire.Request)
	if err := wire.DecodeArgs(call.req.Op, body, nargs, req); err != nil {
		w.fail("a request of the simulation is not well formed: %v", err)
		return
	}
	if err := req.Validate(); err != nil {
		w.fail("a request of the simulation is not valid: %s: %s", describe(call), err.Message)
		return
	}
	wc := &wire.Call{ID: call.id, Op: req.Op, NArgs: nargs, Body: body, Req: req, Session: conn.session, To: conn,
		Ctx: call, Settled: call.settled}
	wc.Again, conn.came = call.id <= conn.came, max(conn.came, call.id)
	conn.bond(call)
	if bonds := conn.bonds[req.Owner]; len(bonds) > 0 && !bonds[len(bonds)-1].off {
		wc.Bound, wc.Grace = true, bonds[len(bonds)-1].grace
	} else if call.bound {
		wc.Bound, wc.Grace = true, conn.c.grace
	}
	conn.tied = conn.tied || wc.Bound
	conn.inflight++
	call.span(conn.node.node, req)
	conn.node.node.Serve([]*wire.Call{wc})
}

// Reply implements wire.Replier.
func (conn *simConn) Reply(wc *wire.Call) {
	call, res := wc.Ctx.(*simCall), wc.Res
	c := conn.c
	if !conn.waits[wc.ID] {
		conn.inflight--
	}
	delete(conn.waits, wc.ID)
	conn.bonded(call, res.Code)
	conn.back(func() {
		if c.open[call.id] != call {
			c.w.fail("client %d #%d is answered twice: %s", c.index, call.id, answerOf(&res))
			return
		}
		if c.retries(call, &res) {
			return
		}
		delete(c.open, call.id)
		c.answered(call, &res)
	})
	if conn.closed {
		conn.c.w.after(0, conn.tell)
	}
}

// simTries is how many times a call is asked again on its connection.
const simTries = 6

// retries asks once more, on the same connection, what is not known or was not done.
func (c *simClient) retries(call *simCall, res *wire.Result) bool {
	w := c.w
	if call.tries >= simTries || c.dead || call.undoes != nil || c.index%2 != 0 {
		return false
	}
	if res.Code != wire.Unavailable && (res.Code != wire.DeadlineExceeded || res.Cause == wire.CauseWaitOver) {
		return false
	}
	if call.req.Op != wire.OpAcquire && call.req.Op != wire.OpRelease || call.ended {
		return false
	}
	if w.lapses() && call.req.Flags&wire.FlagWait == 0 && w.now-call.first >= lapseRepeat*9/10 {
		return false
	}
	call.tries++
	w.note("client %d #%d answered %s, is asked again", c.index, call.id, answerOf(res))
	call.again = true
	conn := call.conn
	for h := range c.touched(call) {
		b := c.belief(h)
		if call.stepped() {
			b.dirty = max(b.dirty, c.last)
		}
	}
	w.after(w.between(10*time.Microsecond, 30*time.Millisecond), func() {
		if c.open[call.id] == call && c.conn == conn && !conn.gone && !c.dead {
			c.send(call)
		}
	})
	return true
}

// Queued implements wire.Replier.
func (conn *simConn) Queued(wc *wire.Call, _ *wire.Result) {
	if !conn.waits[wc.ID] { // though its client has gone on on a later connection
		if conn.waits == nil {
			conn.waits = make(map[uint64]bool)
		}
		conn.waits[wc.ID] = true
		conn.inflight--
		if conn.closed {
			conn.c.w.after(0, conn.tell)
		}
	}
}

// Flush implements wire.Replier.
func (conn *simConn) Flush() {}

// back brings an answer to the client, in order, unless the connection is gone by then.
func (conn *simConn) back(do func()) {
	w := conn.c.w
	conn.returns = max(conn.returns, w.now+w.between(20*time.Microsecond, 500*time.Microsecond))
	w.at(conn.returns, func() {
		if !conn.cut {
			do()
		}
	})
}

// describe is a request for the trace.
func describe(call *simCall) string {
	r := call.req
	var b strings.Builder
	fmt.Fprintf(&b, "%s owner=%s", r.Op, r.Owner)
	for _, l := range r.Locks {
		fmt.Fprintf(&b, " %s:%d", l.Path, l.Mode)
		if l.State != 0 {
			b.WriteString(" held")
		}
		if l.Permits != 0 {
			fmt.Fprintf(&b, " permits=%d", l.Permits)
		}
	}
	for _, l := range r.Releases {
		fmt.Fprintf(&b, " %s:%d", l.Path, l.Mode)
	}
	for _, s := range []struct {
		name string
		v    any
		has  bool
	}{
		{"ttl", r.TTLMillis, r.TTLMillis != 0}, {"queue", r.QueueTTLMillis, r.QueueTTLMillis != 0},
		{"token", r.Token, r.Token != 0}, {"target", r.Target, r.Target != 0},
		{"flags", r.Flags, r.Flags != 0}, {"key", r.Key, r.Key != ""}, {"ns", r.Namespace, r.Namespace != ""},
		{"path", r.Path, r.Path != ""}, {"paths", r.Paths, len(r.Paths) > 0},
		{"domains", r.Domains, len(r.Domains) > 0},
		{"blocker", r.Blocker, r.Blocker != ""}, {"del_wait", true, r.DelWait},
		{"grace", r.GraceMillis, r.Op == wire.OpBind},
		{"algorithm", r.Algorithm, r.Op == wire.OpSetPolicy}, {"bound", true, call.bound}, {"again", true, call.again},
	} {
		if s.has {
			fmt.Fprintf(&b, " %s=%v", s.name, s.v)
		}
	}
	return b.String()
}

func answerOf(r *wire.Result) string {
	if r.Code != wire.OK {
		return fmt.Sprintf("%s %q", r.Code, r.Message)
	}
	return fmt.Sprintf("status=%d reason=%d path=%s owner=%s token=%d flag=%v", r.Status, r.Reason, r.Path, r.Owner,
		r.Token, r.Flag)
}
