package groups

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pathlockd/pathlockd/groups/codec"
)

// Forwarding: what is queued for a log that another node leads is sent to that node, and
// answered from there. Frames go over the mesh, whose connections keep order:
//
//	commands = 16 starts seq log term lane number sessions metas commands
//	           of the log's leader in a term; numbered one after the other; the rest as in
//	           a batch (replica/batch.go)
//	answers  = 17 answer…
//	answer   = log number 0 result        it was carried out, or refused for good
//	         | log number 1 result        it waits in the queue; an answer follows
//	         | log number 2 term host     not done here: who leads in the latest term known
//	question = 18 number log query        (replica/query.go)
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
// is applied the session's record tells that (replica/session.go). That record does not keep every
// answer, so no copy that is left behind may be proposed after that:
//
//   - a command says for which term it is. Who leads in another does not take it, and
//     proposes it under the leader epoch of that term alone. When that term is over, no entry of
//     its leader epoch is applied any more (machine.batch).
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
	// unledAfter is how long they wait when whom they were sent to says that nobody leads. All of them go there and
	// back each time, and who is told of the next leader sends them at once.
	unledAfter = 200 * time.Millisecond
	// noWayAfter is how long the queue waits when there is no connection to the leader;
	// a new one ends the wait.
	noWayAfter = 50 * time.Millisecond
)

// peerConn is a connection to another node. Frames arrive in the order in which they were
// sent, or the connection is closed. Neither method blocks.
type peerConn interface {
	Send(frame []byte) bool
	Unsent() int
	Close(reason error)
}

var (
	errTardy       = errors.New("it leads no more and has not answered what it was sent")
	errMalformed   = errors.New("a forwarded frame is malformed")
	errOlder       = errors.New("there is a later connection from this node")
	errProcessOver = errors.New("its process was thought to be over")
	errUnsure      = errors.New("what became of its commands is not known here any more")
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

	dial atomic.Pointer[func(host string) peerConn] // for tests: instead of the cluster's connections
}

// peer answers the connection to a node, nil while there is none.
func (n *Node) peer(host string) peerConn {
	switch dial := n.forwards.dial.Load(); {
	case host == "" || host == n.id.HostID:
	case dial != nil:
		return (*dial)(host)
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

// forwarded takes a frame of forwarding, on a connection to a node by its raft host id. It
// does not block.
func (n *Node) forwarded(c peerConn, host string, frame []byte) {
	r := codec.Reader{Buf: frame[1:]}
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
	if r.Err != nil {
		c.Close(errMalformed)
		n.peerGone(c)
	}
}

// peerGone has what was forwarded on a connection, dialed or accepted, asked again, and drops
// what came on it.
func (n *Node) peerGone(c peerConn) {
	n.feeding.gone(c)
	n.hub.Lost(c)
	f := &n.forwards
	f.mu.Lock()
	in := f.in[c]
	delete(f.in, c)
	delete(f.seqs, c)
	f.mu.Unlock()
	if in != nil {
		in.shut()
	}
	for _, l := range n.ordered() {
		l.lost(c)
	}
	f.reads.lost(c)
}
