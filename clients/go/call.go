package pathlockd

import (
	"encoding/binary"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// call is one request on its way to the server and back.
//
// It belongs to whoever made it until it is submitted, then to the session, under
// whose lock its fields are, and to its receiver once that has landed it.
type call struct {
	next, prev *call
	in         *callQueue // that it waits in, nil: none

	id       uint64 // 0 until it is sent for the first time
	op       wire.Op
	answer   wire.Answer   // as which it is counted
	renews   string        // owner, of a renewal
	waits    bool          // an acquire with FlagWait: counted apart
	probe    bool          // asks for a sign of life, in a full window too
	urgent   bool          // goes ahead of users' requests, into the reserve
	share    uint8         // whose room it takes if it does, 0: that of what is of no log
	ordered  bool          // goes ahead, and keeps its order among the program's requests
	doubtful bool          // it is to settle a doubt, or counts when that is
	raises   bool          // it is asked before a request that raises a token
	turn     uint64        // of an ordered one, and of users' requests: in which order they came to the session
	async    bool          // counts as backlog while it is not sent
	lowers   bool          // it may leave locks less time, or take them back
	insists  bool          // it is asked again though its caller has gone: it may leave leases less time
	undo     bool          // an acquire to be released again if nobody is left who knows of it
	alone    bool          // its owner is one that the client made up for it
	ties     bool          // the program itself has it tie a lease to the session that it goes by
	forever  bool          // waits without a limit: its time in the queue is to be armed again
	forsaken bool          // its caller has gone
	cancels  bool          // and its cancel is under way
	unheard  bool          // sent again, and nothing was heard of it since
	on       uint64        // connection it was last sent on, 0: none
	only     uint64        // connection it is about, and is dropped without; 0: any
	resent   bool          // it was sent more than once
	timed    bool          // sent is wanted as it is, and not a little earlier
	sent     time.Duration // when it was sent for the first time (Client.now)
	asked    time.Duration // when it was sent last, or its caller went, if it waits, is fixed or the keeper's
	missed   int           // how often it was found unanswered since (unanswered.go)
	crowded  time.Duration // since when it is not heard of, if there is no room to ask it again; 0: there is
	frame    []byte        // encoded, with room for the id
	to       receiver
	gate     *gate         // to be left when nothing of it is under way any more
	then     func(ending)  // called then with what it ended with, if its caller has gone; nil: nothing; under any lock
	gives    *given        // that counts it, as what it gives back may be what locks hold; nil: none does
	until    time.Duration // it is not sent from then on (Client.now), nor on a later connection; 0: whenever

	// Where it goes by.
	repeats bool      // its caller may ask it again under its id
	kept    bool      // as it may now: its answer is not settled; under the session's lock
	fixed   bool      // it goes by its session, whatever way there is
	as      sessionID // with fixed: what that is called, and if it no longer is, the call is refused
	session *session  // that it was given to last; nil while its way holds it back
	way     *way      // that it was given to; of whoever submits it
	held    bool      // its way holds it back; under the way's lock, and not the session's
	counts  *way      // that counts it; nil: none does
	settled bool      // that knows what became of it
	loose   bool      // it is to be counted once requests go by ways
	pressed bool      // its turn to wait for room is over
}

// settle answers the way that is to be told that the order is settled as far as the
// call is concerned; nil when it knows, or there is none.
func (c *call) settle() *way {
	if c.counts == nil || c.settled {
		return nil
	}
	c.settled = true
	return c.counts
}

// receiver is told what became of a call.
type receiver interface {
	// land takes the call back with its reply, exactly once: on the reader
	// goroutine, or on that of whoever ended the client. It must not block.
	land(c *call, r *reply)
}

// reply is what became of a call: an answer of the server, or an error that it
// never got one. It is valid during land only.
type reply struct {
	err     error
	code    wire.Code
	tie     *tie // connection it came on
	results wire.Reader
	fields  int
	scratch wire.Result
	broken  error // it cannot be understood: the connection is not to be trusted any more
}

// decode reads the reply to a call into res, whose strings alias the reader's
// buffer. It answers a refusal as an error.
func (r *reply) decode(c *call, res *wire.Result) error {
	if r.err != nil {
		return r.err
	}
	if err := res.Decode(c.op, r.code, &r.results, r.fields); err != nil {
		r.broken = &ProtocolError{Step: "reply to " + c.op.String(), Err: err}
		return r.broken
	}
	if res.Code != wire.OK {
		return &refusal{c.op, wire.Error{Code: res.Code, Message: string([]byte(res.Message)), Cause: res.Cause}}
	}
	return nil
}

// Places in a frame: its length, two heads of arrays in one byte each, the id, and up to
// where answers are settled; these two are written as nine bytes each, so that they can
// be filled in when the request is sent.
const (
	payloadAt   = 4
	idAt        = 6
	numberBytes = 9
	settledAt   = idAt + numberBytes
	opAt        = settledAt + numberBytes
	// settledBytes is what telling up to where answers are settled takes: the second head,
	// and that number.
	settledBytes = 1 + numberBytes
)

// set encodes req into the call.
func (c *call) set(req *wire.Request) {
	own := *req
	own.Settled = wire.MaxRequestID
	c.frame = wire.AppendRequest(c.frame[:0], wire.MaxRequestID, &own)
	c.answer = wire.AnswerOf(req)
	if c.op = req.Op; c.op == wire.OpRenew {
		c.renews = req.Owner
	}
	c.waits = req.Op == wire.OpAcquire && req.Flags&wire.FlagWait != 0
	c.ties = req.Flags&wire.FlagBind != 0
}

// number gives the call its id.
func (c *call) number(id uint64) {
	c.id = id
	binary.BigEndian.PutUint64(c.frame[idAt+1:], id)
	binary.BigEndian.PutUint64(c.frame[settledAt+1:], 0) // which says nothing yet
}

// append appends the frame to what is to be sent: with up to where answers are settled, or
// without when a server does not know that.
func (c *call) append(out []byte, settled uint64, known bool) []byte {
	if known {
		binary.BigEndian.PutUint64(c.frame[settledAt+1:], settled)
		return append(out, c.frame...)
	}
	out = binary.BigEndian.AppendUint32(out, uint32(len(c.frame)-payloadAt-settledBytes))
	out = append(out, c.frame[payloadAt])
	out = append(out, c.frame[idAt:settledAt]...)
	return append(out, c.frame[opAt:]...)
}

// request decodes what the call asks. It aliases the call's frame.
func (c *call) request() *wire.Request {
	req := new(wire.Request)
	if _, _, _, err := wire.DecodeRequest(c.frame[payloadAt:], req); err != nil {
		panic("pathlockd: a request of our own does not decode: " + err.Error())
	}
	return req
}

// strayed says that the call is about another connection, and is not sent on this one.
func (c *call) strayed(cn *conn) bool { return c.only != 0 && c.only != cn.tie.number }

// mutates says that carrying the request out twice could matter.
func (c *call) mutates() bool {
	spec, _ := c.op.Spec()
	return spec.Kind == wire.KindWrite || c.op == wire.OpBind || c.op == wire.OpUnbind
}

// maxFrameKept bounds the memory of a frame that is kept to be used again.
const maxFrameKept = 4096

var callPool = sync.Pool{New: func() any { return new(call) }}

func newCall(to receiver) *call {
	c := callPool.Get().(*call)
	c.to = to
	return c
}

// over is called when nothing of a call is under way any more whose caller has gone, with what it ended with.
func (c *call) over(with ending) {
	if c.then != nil {
		c.then(with)
	}
	if g := c.gives; g != nil {
		req := takenBack(c.request())
		go g.over(nil, req, with)
	}
	c.gate.leave()
}

// ending is what a call ended with: an error, or an answer, which may be a place in the queue.
type ending struct {
	err   error
	queue bool
}

// endingOf is that of a call that was answered, or failed.
func endingOf(a *answer, err error) ending {
	if a == nil || err != nil {
		return ending{err: err}
	}
	return ending{queue: a.result.Status == wire.StatusQueued}
}

// gave is called when a call that nobody waits for has landed.
func (c *call) gave(r *reply) {
	if c.gives != nil {
		c.gives.over(c, nil, c.outcome(r))
	}
}

// outcome is what is known of a call by its reply, which it does not use up.
func (c *call) outcome(r *reply) ending {
	err := r.err
	if err == nil && r.code != wire.OK {
		err = &refusal{c.op, wire.Error{Code: r.code}}
	}
	if c.unknown(err) {
		err = ErrOutcomeUnknown
	}
	if c.op != wire.OpAcquire || err != nil {
		return ending{err: err}
	}
	results := r.results
	defer func() { r.results = results }()
	if err = r.decode(c, &r.scratch); err != nil {
		return ending{err: err}
	}
	return ending{queue: r.scratch.Status == wire.StatusQueued}
}

// free gives a call back that nobody refers to any more.
func (c *call) free() {
	frame := c.frame[:0]
	if cap(frame) > maxFrameKept {
		frame = nil
	}
	*c = call{frame: frame}
	callPool.Put(c)
}

// callQueue is calls in the order in which they are to be sent. Any can leave it.
type callQueue struct {
	first, last *call
	ordered     int            // how many of them are ordered
	renewals    map[string]int // how many there are, by owner; nil: they are not counted
}

func (q *callQueue) push(c *call) {
	c.in, c.prev, c.next = q, q.last, nil
	q.counts(c, 1)
	if q.last == nil {
		q.first = c
	} else {
		q.last.next = c
	}
	q.last = c
}

// unshift puts a call before all others.
func (q *callQueue) unshift(c *call) {
	c.in, c.prev, c.next = q, nil, q.first
	q.counts(c, 1)
	if q.first == nil {
		q.last = c
	} else {
		q.first.prev = c
	}
	q.first = c
}

// counts takes note of a call that came, with 1, or left, with -1.
func (q *callQueue) counts(c *call, n int) {
	if c.ordered {
		q.ordered += n
	}
	if q.renewals == nil || c.op != wire.OpRenew {
		return
	}
	if q.renewals[c.renews] += n; q.renewals[c.renews] == 0 {
		delete(q.renewals, c.renews)
	}
}

// insert puts a call before another one, nil: last.
func (q *callQueue) insert(c, before *call) {
	switch before {
	case nil:
		q.push(c)
	case q.first:
		q.unshift(c)
	default:
		c.in, c.prev, c.next = q, before.prev, before
		q.counts(c, 1)
		before.prev.next = c
		before.prev = c
	}
}

func (q *callQueue) remove(c *call) {
	q.counts(c, -1)
	if c.prev == nil {
		q.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		q.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.in, c.prev, c.next = nil, nil, nil
}

// sentCalls is the calls that were sent and not answered. Nearly all of them are
// found by the low bits of their ids; those that stay longer than the ids after
// them take to come around again, and are in the way, are found in a map.
type sentCalls struct {
	ring []*call // a power of two
	late map[uint64]*call
	n    int
}

// grow makes room for as many calls at once, before it is used.
func (t *sentCalls) grow(calls int) {
	size := 64
	for size < 2*calls {
		size *= 2
	}
	if size <= len(t.ring) {
		return
	}
	old := t.sorted()
	*t = sentCalls{ring: make([]*call, size)}
	for _, c := range old {
		t.put(c)
	}
}

func (t *sentCalls) put(c *call) {
	t.n++
	slot := &t.ring[c.id&uint64(len(t.ring)-1)]
	if *slot == nil {
		*slot = c
		return
	}
	if t.late == nil {
		t.late = make(map[uint64]*call)
	}
	t.late[c.id] = c
}

// get answers the call with an id, nil when there is none.
func (t *sentCalls) get(id uint64) *call {
	if c := t.ring[id&uint64(len(t.ring)-1)]; c != nil && c.id == id {
		return c
	}
	return t.late[id]
}

// take is get, and removes it.
func (t *sentCalls) take(id uint64) *call {
	slot := &t.ring[id&uint64(len(t.ring)-1)]
	c := *slot
	if c != nil && c.id == id {
		*slot = nil
		t.n--
		return c
	}
	if c = t.late[id]; c != nil {
		delete(t.late, id)
		t.n--
	}
	return c
}

// all are the calls, in no order.
func (t *sentCalls) all() iter.Seq[*call] {
	return func(yield func(*call) bool) {
		for _, c := range t.ring {
			if c != nil && !yield(c) {
				return
			}
		}
		for _, c := range t.late {
			if !yield(c) {
				return
			}
		}
	}
}

// sorted lists the calls in the order of their ids.
func (t *sentCalls) sorted() []*call {
	all := slices.AppendSeq(make([]*call, 0, t.n), t.all())
	slices.SortFunc(all, func(a, b *call) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})
	return all
}

// clear forgets all of them.
func (t *sentCalls) clear() {
	clear(t.ring)
	t.late, t.n = nil, 0
}
