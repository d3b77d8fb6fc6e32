package groups

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/groups/mesh"
	"github.com/pathlockd/pathlockd/wire"
)

// Forwarding: what is queued for a log that another node leads is sent to that node, and
// answered from there. Frames go over the mesh, whose connections keep order:
//
//	commands = 16 starts seq log term lane number sessions metas commands
//	           of the log's leader in a term; numbered one after the other; the rest as in
//	           a batch (entry.go)
//	answers  = 17 answer…
//	answer   = log number 0 result        it was carried out, or refused for good
//	         | log number 1 result        it waits in the queue; an answer follows
//	         | log number 2 term host     not done here: who leads in the latest term known
//	question = 18 number log query        (query.go)
//	told     = 19 number 0 result
//	         | 19 number 2 log term host  not answered here: who leads, as above
//
// Numbers are unsigned varints, a result is length and bytes (wire.AppendWhole), a host
// is length and bytes.
//
// # Order, and nothing twice
//
// Parts of a log are sent to a new leader only when every one that was sent to an earlier
// one came back: the order of a session's commands in a log is that in which they were
// queued. What came back is queued again in its order, before everything else.
//
// A part whose connection broke may have been carried out. It is sent again, and where it
// is applied the session's record tells that (session.go). That record does not keep every
// answer, so no copy that is left behind may be proposed after that:
//
//   - a command says for which term it is. Who leads in another does not take it, and
//     proposes it under the office of that term alone. When that term is over, no entry of
//     its office is applied any more (machine.batch).
//   - within one term the copies are at the same node, on two connections of one peer.
//     starts and seq order them: the first command on the later one shuts out what came on
//     the earlier one and is not proposed yet.
//   - a node that refuses a part of a lane refuses all that follow in it.
const (
	frameCommands byte = iota + firstForward
	frameAnswers
	frameQuestion
	frameToldRead
)

// Kinds of answer.
const (
	answerResult byte = iota
	answerQueued
	answerElsewhere
)

const (
	// answerWithin is how long a node is given, once a later leader is known, to answer
	// what it was sent as the leader. Then the connection to it is closed, which answers
	// for it.
	answerWithin = 500 * time.Millisecond
	// resendAfter is how long parts that came back wait when nobody better is known.
	resendAfter = 20 * time.Millisecond
	// noWayAfter is how long the queue waits when there is no connection to the leader;
	// a new one ends the wait.
	noWayAfter = 50 * time.Millisecond
)

// peerConn is a connection to another node. Frames arrive in the order in which they were
// sent, or the connection is closed. Neither method blocks.
type peerConn interface {
	Send(frame []byte) bool
	Close(reason error)
}

var (
	errTardy     = errors.New("it leads no more and has not answered what it was sent")
	errMalformed = errors.New("a forwarded frame is malformed")
	errOlder     = errors.New("there is a later connection from this node")
	errUnsure    = errors.New("what became of its commands is not known here any more")
)

// forwarding is a node's part in it.
type forwarding struct {
	mu    sync.Mutex
	in    map[peerConn]*inbound
	of    map[string]latest   // by raft host id of the peer
	seqs  map[peerConn]uint64 // of connections that commands went out on
	seq   uint64
	reads remoteReads
	left  orphanage

	dial func(host string) peerConn // for tests: instead of the cluster's connections
}

// peer answers the connection to a node, nil while there is none.
func (n *Node) peer(host string) peerConn {
	switch {
	case host == "" || host == n.id.HostID:
	case n.forwards.dial != nil:
		return n.forwards.dial(host)
	case n.cluster != nil:
		if c := n.cluster.conn(host); c != nil {
			return c
		}
	}
	return nil
}

// seqOf numbers the connections that commands go out on.
func (f *forwarding) seqOf(c peerConn) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	seq, ok := f.seqs[c]
	if !ok {
		if f.seqs == nil {
			f.seqs = make(map[peerConn]uint64)
		}
		f.seq++
		seq = f.seq
		f.seqs[c] = seq
	}
	return seq
}

// forget lets go of a connection that is closed: its end may have been told of before
// seqOf was asked.
func (f *forwarding) forget(c peerConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.seqs, c)
}

// forwardFrame takes a frame of forwarding. It does not block.
func (n *Node) forwardFrame(c *mesh.Conn, frame []byte) { n.forwarded(c, c.Peer().Host, frame) }

// forwardClosed takes note that a connection, dialed or accepted, is gone.
func (n *Node) forwardClosed(c *mesh.Conn) { n.peerGone(c) }

func (n *Node) forwarded(c peerConn, host string, frame []byte) {
	r := entryReader{buf: frame[1:]}
	switch frame[0] {
	case frameCommands:
		n.takeCommands(n.inboundOf(c, host), &r)
	case frameAnswers:
		n.takeAnswers(c, &r)
	case frameQuestion:
		n.takeQuestion(n.inboundOf(c, host), &r)
	case frameToldRead:
		n.takeTold(c, &r)
	}
	if r.err != nil {
		c.Close(errMalformed)
		n.peerGone(c)
	}
}

// peerGone has what is away on a connection asked again, and drops what came on it.
func (n *Node) peerGone(c peerConn) {
	f := &n.forwards
	f.mu.Lock()
	in := f.in[c]
	delete(f.in, c)
	delete(f.seqs, c)
	f.mu.Unlock()
	if in != nil {
		in.shut()
	}
	for _, l := range n.logs {
		l.lost(c)
	}
	f.reads.lost(c)
}

// away is what a log's queue has sent to another node and has no answer to.
type away struct {
	conn    peerConn         // nil while nothing is
	host    string           // whose connection it is
	term    uint64           // of the leader it was sent to
	lane    uint64           // grows with each leader that something is sent to
	parts   map[uint64]*part // by number; nil while its caller is being told that it is queued
	number  uint64           // given last
	back    []*part          // refused, to be sent again
	refused bool             // nothing more is sent on this lane
	gone    bool             // the connection is
	newer   time.Duration    // since when answers are overdue, 0: they are not
	retryAt time.Duration
	looked  time.Duration // when parts were last looked through for those too long away
}

// forward sends what is queued to the node that leads the log. It is called with drive
// held.
func (l *shardLog) forward() {
	host, term := l.node.leaderOf(l.shard)
	if host == l.node.id.HostID {
		host = ""
	}
	l.mu.Lock()
	var over, unsure []*part
	ready := false
	if host != "" {
		ready, unsure = l.grounded(term)
	} else {
		l.mu.overdue = 0
	}
	if l.mu.suspect {
		over = l.weed()
	}
	wanted := ready && len(l.mu.queue) > 0
	if host != "" && !wanted && l.mu.away.conn != nil {
		l.settled(l.mu.away.conn, term) // so that what is overdue is noticed
	}
	l.mu.Unlock()
	l.node.bounce(over)
	l.node.unsure(unsure)
	if !wanted {
		return
	}
	to := l.node.peer(host)
	for l.sendAway(to, host, term) {
	}
}

// sendAway sends a frame's worth of the queue, and says whether there may be more.
func (l *shardLog) sendAway(to peerConn, host string, term uint64) bool {
	now := l.clock.Mono()
	l.mu.Lock()
	a := &l.mu.away
	switch {
	case now < a.retryAt || len(l.mu.queue) == 0 || l.mu.closed:
		l.mu.Unlock()
		return false
	case to == nil:
		if a.conn != nil {
			l.settled(nil, term)
		}
		a.retryAt = now + noWayAfter
		l.mu.Unlock()
		return false
	case !l.settled(to, term):
		l.mu.Unlock()
		return false
	}
	w := &l.drive.writer
	w.reset()
	first, n := a.number+1, 0
	for n < len(l.mu.queue) && !w.full() {
		p := l.mu.queue[n]
		w.add(p)
		a.number++
		p.number = a.number
		a.parts[p.number] = p
		n++
	}
	rest := copy(l.mu.queue, l.mu.queue[n:])
	clear(l.mu.queue[rest:])
	l.mu.queue = l.mu.queue[:rest]
	if a.conn == nil {
		a.lane++
	}
	a.conn, a.host, a.term = to, host, term
	lane := a.lane
	l.mu.Unlock()

	b := append(w.buf[:0], frameCommands)
	for _, v := range [...]uint64{l.node.id.Starts, l.node.forwards.seqOf(to), l.shard, term, lane, first} {
		b = binary.AppendUvarint(b, v)
	}
	w.buf = w.appendTo(b)
	if !to.Send(w.buf) {
		l.node.forwards.forget(to)
		l.lost(to)
		return false
	}
	return true
}

// settled says that nothing is on its way to anybody but the leader of the given term on
// the given connection (nil for this node itself). What came back is then in the queue
// again. It is called under the lock.
func (l *shardLog) settled(to peerConn, term uint64) bool {
	a := &l.mu.away
	switch {
	case a.conn == nil:
		return true
	case len(a.parts) == 0:
		l.comeBack()
		return true
	case a.conn == to && a.term == term && !a.refused:
		return true
	case a.newer == 0:
		a.newer = l.clock.Mono()
	}
	return false
}

// comeBack ends a lane on which nothing is under way any more: what is to be sent again
// is queued in its order, before all others. It is called under the lock.
func (l *shardLog) comeBack() {
	a := &l.mu.away
	slices.SortFunc(a.back, func(x, y *part) int { return cmp.Compare(x.number, y.number) })
	if len(a.back) > 0 {
		l.inFront(l.withEndings(a.back))
	}
	a.back, a.conn, a.host, a.refused, a.gone, a.newer = nil, nil, "", false, false, 0
}

// lost takes back what is away on a connection that is gone.
func (l *shardLog) lost(c peerConn) {
	l.mu.Lock()
	a := &l.mu.away
	mine := a.conn == c
	if mine {
		for number, p := range a.parts {
			if p != nil {
				p.tried = true
				a.back = append(a.back, p)
				delete(a.parts, number)
			}
		}
		a.refused, a.gone = true, true
		if len(a.parts) == 0 {
			l.comeBack()
		}
	}
	l.mu.Unlock()
	if mine {
		l.kick()
	}
}

// awayDue is when something has to be done about what is away.
func (l *shardLog) awayDue() (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &l.mu.away
	if due, ok := l.overdueAt(); ok {
		return due, true
	}
	switch {
	case a.newer != 0:
		return a.newer + answerWithin, true
	case a.retryAt != 0 && len(l.mu.queue) > 0:
		return a.retryAt, true
	}
	return 0, false
}

// unblock closes the connection to a node that does not answer though it leads no more.
func (l *shardLog) unblock() {
	l.mu.Lock()
	a := &l.mu.away
	now := l.clock.Mono()
	if a.retryAt != 0 && now >= a.retryAt {
		a.retryAt = 0
	}
	var tardy peerConn
	if a.newer != 0 && now-a.newer >= answerWithin {
		tardy, a.newer = a.conn, 0
	}
	l.mu.Unlock()
	if tardy != nil {
		l.log.Info("asking a new leader again what the last one did not answer")
		tardy.Close(errTardy)
		l.node.peerGone(tardy)
	}
}

// awayTooLong takes out what is away for longer than a request may take. It is called
// under the lock.
func (l *shardLog) awayTooLong(now time.Duration) (late []*part) {
	a := &l.mu.away
	if len(a.parts) == 0 || now-a.looked < l.timeout/8 {
		return nil
	}
	a.looked = now
	for number, p := range a.parts {
		if p != nil && !p.told && now-p.since >= l.timeout {
			late = append(late, p)
			delete(a.parts, number)
		}
	}
	if len(a.parts) == 0 && a.refused {
		l.comeBack()
	}
	return late
}

// takeAnswers delivers what came back from a leader.
func (n *Node) takeAnswers(c peerConn, from *entryReader) {
	r := entryReader{buf: append([]byte(nil), from.buf...)} // strings of results go on living
	var to repliers
	var res wire.Result
	for len(r.buf) > 0 && r.err == nil {
		l := n.logs[r.uvarint()]
		number, kind := r.uvarint(), r.byte()
		if r.err != nil || l == nil || kind > answerElsewhere {
			r.err = errEntry
			break
		}
		if kind == answerElsewhere {
			term, host := r.uvarint(), string(r.bytes(r.uvarint()))
			if r.err == nil {
				l.notThere(c, number, term, host)
			}
			continue
		}
		whole := wire.NewReader(r.bytes(r.uvarint()))
		if err := res.DecodeWhole(&whole); err != nil || r.err != nil {
			r.err = errEntry
			break
		}
		p := l.cameBack(c, number, kind)
		switch {
		case p == nil: // it was sent again elsewhere
		case kind == answerQueued:
			n.land(p)
			p.queued(&res, &to)
			l.stays(number, p)
		default:
			n.deliver(p, &res, &to)
		}
	}
	from.err = r.err
	to.flush()
}

// cameBack takes a part out of what is away. One that is queued stays until stays.
func (l *shardLog) cameBack(c peerConn, number uint64, kind byte) *part {
	l.mu.Lock()
	a := &l.mu.away
	p := a.parts[number]
	if a.conn != c || p == nil {
		l.mu.Unlock()
		return nil
	}
	if kind == answerQueued {
		a.parts[number] = nil
		l.mu.Unlock()
		return p
	}
	delete(a.parts, number)
	again := len(a.parts) == 0 && (a.refused || a.newer != 0)
	if again {
		l.comeBack()
	}
	l.mu.Unlock()
	if again {
		l.kick()
	}
	return p
}

// stays puts a part back whose caller was told that it is queued.
func (l *shardLog) stays(number uint64, p *part) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &l.mu.away
	if !a.gone {
		a.parts[number] = p
		return
	}
	p.tried = true
	a.back = append(a.back, p)
	if delete(a.parts, number); len(a.parts) == 0 {
		l.comeBack()
		l.kick()
	}
}

// notThere takes back a part that the node it was sent to does not take.
func (l *shardLog) notThere(c peerConn, number, term uint64, host string) {
	_, known := l.node.leaderOf(l.shard)
	l.mu.Lock()
	a := &l.mu.away
	if p := a.parts[number]; a.conn == c && p != nil {
		delete(a.parts, number)
		p.tried = p.tried || p.told
		a.back = append(a.back, p)
		if !a.refused {
			a.refused = true
			if term <= known {
				a.retryAt = l.clock.Mono() + resendAfter
			}
		}
		if len(a.parts) == 0 {
			l.comeBack()
		} else if a.newer == 0 {
			a.newer = l.clock.Mono()
		}
	}
	l.mu.Unlock()
	if host != "" {
		l.node.noteLeader(l.shard, term, host)
	}
	l.kick()
}

// followed is what run last knew of who leads.
type followed struct {
	mine uint64 // term in which this node does, as raft says
	host string // who does otherwise
	term uint64
}

// follow gives up the open calls that are attached here when this node does not lead the
// log any more: a wait is answered where the log's leader is. It is of run alone.
func (l *shardLog) follow() {
	host, term := l.node.leaderOf(l.shard)
	if host == l.node.id.HostID {
		host = ""
	}
	now := followed{mine: l.mine(), host: host, term: term}
	if !l.unfollow.Swap(false) && now == l.followed {
		return
	}
	l.followed = now
	n := l.node
	n.bounce(n.attached(l, func(p *part) bool { return p.from != nil && p.term != now.mine }))
	if now.mine != 0 || host == "" {
		return
	}
	move := n.attached(l, func(p *part) bool { return p.from == nil })
	if l.shard == systemShard {
		own := n.changes.all()
		for i, p := range own {
			if p.from != nil {
				n.bounce(own[i : i+1])
			} else {
				p.tried = true
				move = append(move, p)
			}
		}
	}
	if len(move) == 0 {
		return
	}
	slices.SortFunc(move, func(x, y *part) int {
		return cmp.Or(cmp.Compare(x.since, y.since), cmp.Compare(x.id, y.id))
	})
	l.mu.Lock()
	l.inFront(l.withEndings(move))
	l.mu.Unlock()
}

// withEndings lets each wait that was ended, as far as its caller is concerned, be ended
// again once it is attached anew. It is called under the lock.
func (l *shardLog) withEndings(parts []*part) []*part {
	out := parts[:0:0]
	for _, p := range parts {
		out = append(out, p)
		if !p.waits {
			continue
		}
		if grace, ok := l.node.waits.ended(p); ok {
			out = append(out, l.node.ending(wait{p.group, p.session, p.id, grace}))
		}
	}
	return out
}

// attached takes the open calls of a log that are and that this node would answer out of
// its hands.
func (n *Node) attached(l *shardLog, are func(*part) bool) (parts []*part) {
	mine := n.waits.those(func(p *part) bool { return p.log == l && are(p) })
	if len(mine) == 0 {
		return nil
	}
	if m := l.local.Load(); m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
	}
	for _, p := range mine {
		if n.waits.get(p.caller()) == p && p.open {
			p.open, p.tried = false, true
			parts = append(parts, p)
		}
	}
	return parts
}
