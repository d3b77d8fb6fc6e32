package groups

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/groups/codec"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// A read is answered by this node if it has a replica of the log, once that is up to date
// (reads.go); else by the node that leads the log, which does the same. Reads may be
// asked again at will, so one that is not answered is, until its time is over.

const (
	// maxRemoteReads is how many reads this node has under way at others; over it they are
	// refused. Those that wait for a log which nobody leads get half of it (maxStepped).
	maxRemoteReads = 4096
	// askReadAgain is how often a read that waits for an answer looks whether another node
	// is to be asked.
	askReadAgain = 200 * time.Millisecond
	// askReadPause is how long a read waits for a leader to be known, a way to it, or room
	// for its answer, at first; each time twice as long, up to maxReadPause.
	askReadPause, maxReadPause = 10 * time.Millisecond, 80 * time.Millisecond
	// maxReadBytes is how long the answer to a peer's read may be.
	maxReadBytes = 12 << 20
	// maxUnsentReads is how many bytes may be unsent on a connection for a read's answer
	// to be sent on it; over it the peer is to ask again. A few long ones would be more
	// than mesh bears, and with the connection end all that is forwarded on it.
	maxUnsentReads = 2 * maxReadBytes
)

// remoteReads is the reads that other nodes were asked.
type remoteReads struct {
	mu    sync.Mutex
	last  uint64
	under map[uint64]*remoteRead
	count int // reads that want to be asked, under way or not
}

// remoteRead is one question.
type remoteRead struct {
	conn   peerConn
	told   chan struct{} // closed once answer is there
	answer remoteAnswer
}

// remoteAnswer is what became of it; lost when somebody else is to be asked.
type remoteAnswer struct {
	res  wire.Result
	lost bool
}

// begin counts a read in, if fewer are under way than so many.
func (r *remoteReads) begin(most int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count >= most {
		return false
	}
	r.count++
	return true
}

func (r *remoteReads) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count--
}

func (r *remoteReads) add(q *remoteRead) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.under == nil {
		r.under = make(map[uint64]*remoteRead)
	}
	r.last++
	r.under[r.last] = q
	return r.last
}

// tell ends a question that was asked on a connection.
func (r *remoteReads) tell(c peerConn, number uint64, a remoteAnswer) {
	r.mu.Lock()
	q := r.under[number]
	if q != nil && q.conn == c {
		delete(r.under, number)
		q.tell(a)
	}
	r.mu.Unlock()
}

// tell ends the question. Who takes it out of under calls it.
func (q *remoteRead) tell(a remoteAnswer) {
	q.answer = a
	close(q.told)
}

func (r *remoteReads) drop(number uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.under, number)
}

// lost has what was asked on a connection asked elsewhere.
func (r *remoteReads) lost(c peerConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for number, q := range r.under {
		if q.conn == c {
			delete(r.under, number)
			q.tell(remoteAnswer{lost: true})
		}
	}
}

// own answers this node's replica of a log if reads may look at it.
func (l *shardLog) own() *replica.Machine {
	// One that does not vote can be far behind, and raft gives it no read index.
	if m := l.local.Load(); m != nil && m.Loaded.Load() && m.Voting.Load() {
		return m
	}
	return nil
}

// read answers a query, on another goroutine than the caller's.
func (n *Node) read(l *shardLog, q *replica.Query, since time.Duration, done func(res *wire.Result)) {
	ask := func() {
		res := n.askLeader(l, q, since)
		done(&res)
	}
	if l.own() == nil {
		n.tasks.run(ask)
		return
	}
	n.readers[l.shard].do(since, func(m *replica.Machine, err *wire.Error) {
		var res wire.Result
		switch {
		case err == errReadElsewhere:
			n.tasks.run(ask)
			return
		case err != nil:
			res.Fail(err)
		default:
			res = m.Answer(q)
		}
		done(&res)
	})
}

// askLeader has a query answered by the node that leads the log, whoever that is, until
// its time is over; one that is to be answered as it is by who leads it now, or not.
func (n *Node) askLeader(l *shardLog, q *replica.Query, since time.Duration) (res wire.Result) {
	reads := &n.forwards.reads
	if !reads.begin(maxRemoteReads / 2) {
		if l.leaderless() {
			_, why := n.noLeader(l.shard)
			res.Fail(wire.Errorf(wire.Unavailable,
				"%s; %d reads are under way at other nodes, and no more are taken that need this log; nothing was "+
					"read, try again",
				why, maxRemoteReads/2))
			return res
		}
		if !reads.begin(maxRemoteReads) {
			res.Fail(wire.Errorf(wire.Unavailable,
				"%d reads are under way at other nodes, no more are taken; nothing was read, try again",
				maxRemoteReads))
			return res
		}
	}
	defer reads.end()
	if q.AsIs() {
		if m := l.own(); m != nil && m.Has(q.Token) {
			return m.Answer(q)
		}
	}
	var frame []byte
	for pause := askReadPause; ; pause = min(2*pause, maxReadPause) {
		if host, _ := n.leaderOf(l.shard); host != "" {
			if to := n.peer(host); to != nil {
				asked := &remoteRead{conn: to, told: make(chan struct{})}
				number := reads.add(asked)
				frame = binary.AppendUvarint(append(frame[:0], frameQuestion), number)
				frame = q.Append(binary.AppendUvarint(frame, l.shard))
				if to.Send(frame) {
					if a := n.answered(asked, l, since); !a.lost {
						return a.res
					}
				}
				reads.drop(number)
			}
		}
		if q.AsIs() || n.clock.Mono()-since >= n.cfg.RequestTimeout {
			res.Fail(errReadLate)
			return res
		}
		if n.tasks.wait(pause, n.stop) == 0 {
			res.Fail(errReadStopped)
			return res
		}
		if l.own() != nil { // it has got a replica meanwhile, or has one that may be up to date again
			if m, err := n.upToDate(l, since); err == nil {
				return m.Answer(q)
			} else if err != errReadElsewhere {
				res.Fail(err)
				return res
			}
		}
	}
}

// answered waits for the answer to a question, for as long as whom it was put to leads the
// log and can be reached: to put it to the same node once more would only make it later.
func (n *Node) answered(q *remoteRead, l *shardLog, since time.Duration) remoteAnswer {
	for {
		switch n.tasks.wait(min(askReadAgain, n.cfg.RequestTimeout), q.told, n.stop) {
		case 0:
			return q.answer
		case 1:
			return remoteAnswer{lost: true}
		}
		host, _ := n.leaderOf(l.shard)
		if host == "" || n.peer(host) != q.conn || n.clock.Mono()-since >= n.cfg.RequestTimeout {
			return remoteAnswer{lost: true}
		}
	}
}

// upToDate waits until this node's replica of a log is up to date.
func (n *Node) upToDate(l *shardLog, since time.Duration) (m *replica.Machine, err *wire.Error) {
	told := make(chan struct{})
	n.readers[l.shard].do(since, func(at *replica.Machine, because *wire.Error) {
		m, err = at, because
		close(told)
	})
	n.tasks.wait(forever, told)
	return m, err
}

// takeQuestion answers a peer's read.
func (n *Node) takeQuestion(in *inbound, r *codec.Reader) {
	number, l := r.Uvarint(), n.logs[r.Uvarint()]
	q := new(replica.Query)
	q.Read(r)
	if r.Err != nil || l == nil || !n.checkQuery(q, l) {
		r.Err = codec.ErrMalformed
		return
	}
	if l.own() == nil || l.lead.Load().leader == 0 || in.crowded(0) {
		in.elsewhere(l, number)
		return
	}
	if in.reads.Add(1) > maxPeerReads {
		in.reads.Add(-1)
		in.elsewhere(l, number)
		return
	}
	if q.AsIs() {
		n.tasks.run(func() { // which may wait for a replica that is at work
			defer in.reads.Add(-1)
			if m := l.own(); m != nil && m.Has(q.Token) {
				res := m.Answer(q)
				in.toldRead(l, number, &res)
				return
			}
			in.elsewhere(l, number)
		})
		return
	}
	n.readers[l.shard].do(n.clock.Mono(), func(m *replica.Machine, err *wire.Error) {
		if err != nil || in.crowded(0) {
			in.reads.Add(-1)
			in.elsewhere(l, number)
			return
		}
		res := m.Answer(q)
		if q.What == replica.AskLater && res.List == nil { // the routes are not there yet
			err := n.await(q.Version+1, n.clock.Mono()+min(laterWithin, n.cfg.RequestTimeout/2), func(bool) {
				res := m.Answer(q)
				in.reads.Add(-1)
				in.toldRead(l, number, &res)
			})
			if err == nil {
				return
			}
		}
		in.reads.Add(-1)
		in.toldRead(l, number, &res)
	})
}

// toldRead answers a read.
func (in *inbound) toldRead(l *shardLog, number uint64, res *wire.Result) {
	frame := append(binary.AppendUvarint([]byte{frameToldRead}, number), answerResult)
	whole := appendSized(frame, func(b []byte) []byte { return wire.AppendWhole(b, res) })
	if len(whole) > maxReadBytes {
		res.Fail(wire.Errorf(wire.ResourceExhausted,
			"the answer takes %d bytes, between nodes at most %d are told: ask for fewer entries", len(whole),
			maxReadBytes))
		whole = appendSized(frame, func(b []byte) []byte { return wire.AppendWhole(b, res) })
	}
	if in.crowded(len(whole)) {
		in.elsewhere(l, number)
		return
	}
	in.conn.Send(whole)
}

// crowded says that too much is unsent for an answer of so many bytes, or of any.
func (in *inbound) crowded(bytes int) bool {
	unsent := in.conn.Unsent()
	return unsent > 0 && unsent+bytes >= maxUnsentReads
}

// elsewhere tells that a read is not answered here.
func (in *inbound) elsewhere(l *shardLog, number uint64) {
	host, term := l.redirect()
	b := append(binary.AppendUvarint([]byte{frameToldRead}, number), answerElsewhere)
	b = binary.AppendUvarint(b, l.shard)
	in.conn.Send(codec.AppendString(binary.AppendUvarint(b, term), host))
}

// takeTold takes the answer to a read.
func (n *Node) takeTold(c peerConn, r *codec.Reader) {
	number, kind := r.Uvarint(), r.Byte()
	if kind == answerElsewhere {
		shard, term, host := r.Uvarint(), r.Uvarint(), r.Text()
		switch {
		case r.Err != nil:
		case host != "":
			n.noteLeader(shard, term, host)
		default:
			n.leadsNoMore(shard, term, c)
		}
		n.forwards.reads.tell(c, number, remoteAnswer{lost: true})
		return
	}
	body := append([]byte(nil), r.Bytes(r.Uvarint())...) // the answer goes on living
	if r.Err != nil || kind != answerResult {
		r.Err = codec.ErrMalformed
		return
	}
	whole := wire.NewReader(body)
	var a remoteAnswer
	if r.Err = a.res.DecodeWhole(&whole); r.Err == nil {
		n.forwards.reads.tell(c, number, a)
	}
}
