package loop

import (
	"bytes"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/pathlockd/pathlockd/wire"
)

const (
	// fairShare is what a connection may have in memory when the server as a whole
	// is at a limit, bytes: who is not the cause of it goes on.
	fairShare = 64 << 10
	// largeRead is how many bytes of frames, taken at once, are not to be kept in
	// memory by what is used again.
	largeRead = 128 << 10
)

// chunk is the memory of frames that were read together. It is counted until the
// last call in it is answered, as that is how long all of it lives.
type chunk struct {
	bytes int64
	calls int
}

// asked is what the loop knows of a call; it is the call's Ctx.
type asked struct {
	s      *session
	chunk  *chunk
	waits  bool        // counted among the session's waiting calls
	answer wire.Answer // as which it is counted, if it does not wait
	binds  string      // owner that it binds or unbinds
}

// receive takes what the connection has read.
func (s *session) receive() gnet.Action {
	s.r.reading = s
	// gnet would keep what is left over in a buffer that it once made for somebody's
	// longest frame: a byte here could hold megabytes. So nothing is left with it.
	if buf, err := s.conn.Peek(-1); err == nil {
		_, _ = s.conn.Discard(len(buf)) // the bytes stay where they are until the next read
		s.take(buf)
	}
	s.served()
	s.r.flush()
	s.r.reading = nil
	if s.closing && !s.closed && s.conn != nil {
		return gnet.Close
	}
	return gnet.None
}

// taken is receive off the loop.
func (s *session) taken(buf []byte) {
	s.take(buf)
	s.served()
}

// served hands over what was asked.
func (s *session) served() {
	s.r.serve()
	s.r.trim()
	if s.read > largeRead {
		s.r.forget() // they point into it
	}
	s.read = 0
}

// resume takes the frames that there was no room for, as far as there is now.
func (s *session) resume() {
	if len(s.later) == 0 || s.closing || s.closed {
		return
	}
	frames := s.later
	s.later = nil
	s.frames(frames, s.waited.later)
	if len(s.later) == 0 && len(s.in) > 0 {
		in := s.in
		s.in = nil
		s.served()
		s.took(in, s.waited.in)
	}
	s.served()
	s.account()
	if s.lane != nil {
		s.lane.move()
	}
}

// deferred is how many bytes of requests may be read for which there is no room yet.
const deferred = 256 << 10

// take takes bytes that were read just now, which belong to the loop.
func (s *session) take(buf []byte) { s.took(buf, s.since()) }

// took takes bytes that have been here since an uptime, 0: they have just come.
func (s *session) took(buf []byte, since time.Duration) {
	if s.closing {
		return
	}
	if len(s.later) > 0 {
		if len(s.in) < max(s.need, 1) { // nothing, or an unfinished frame: that was sent with its last byte
			s.waited.in = s.orNow(since)
		}
		s.in = append(s.in, buf...)
		if s.account(); len(s.in) > deferred && s.lane == nil && !s.closing {
			s.depart(nil) // where reading stops
		}
		return
	}
	fresh := len(s.in) == 0
	if !fresh {
		s.in = extend(s.in, buf, s.need)
		if buf = s.in; len(buf) < s.need {
			s.account()
			return
		}
	}
	whole, need, err := wholeFrames(buf)
	frames := buf[:whole]
	if fresh {
		frames = bytes.Clone(frames) // what is asked outlives the read
	}
	s.need = need
	switch {
	case err != nil || whole == len(buf):
		s.in = nil
	case fresh || whole > 0:
		s.in, s.began = extend(nil, buf[whole:], need), time.Now()
	}
	s.frames(frames, since)
	if s.waited.in = 0; len(s.later) > 0 && len(s.in) > 0 {
		s.waited.in = s.orNow(since)
	}
	if err != nil { // though what comes before it may not be answered any more
		s.goodbye(wire.Errorf(wire.InvalidArgument, "%v (%d bytes at most)", err, wire.MaxFrameBytes))
	}
	s.account()
}

// extend appends to the bytes of an unfinished frame. It makes room for twice what
// came, so that a long one is not copied often, and for no more than the frame takes:
// what is announced and never sent takes no memory.
func extend(in, more []byte, need int) []byte {
	if n := len(in) + len(more); n > cap(in) {
		in = append(make([]byte, 0, max(n, min(2*n, need))), in...)
	}
	return append(in, more...)
}

// wholeFrames measures the whole frames at the start of buf, and what the one
// after them needs.
func wholeFrames(buf []byte) (whole, need int, err error) {
	for {
		_, size, need, err := wire.NextFrame(buf[whole:], wire.MaxFrameBytes)
		if err != nil || size == 0 {
			return whole, need, err
		}
		whole += size
	}
}

// account counts the memory of an unfinished frame.
func (s *session) account() {
	n := int64(cap(s.in) + cap(s.later))
	if s.closed {
		n = 0
	}
	total := s.srv.partial.Add(n - s.partial)
	s.partial = n
	if total > s.srv.opt.Inbound && n > fairShare {
		s.goodbye(wire.Errorf(wire.ResourceExhausted,
			"the server holds %d bytes of unfinished frames, at most %d are taken", total, s.srv.opt.Inbound))
	}
}

// frames takes whole frames, which are the session's own, and have been here since an uptime, 0: they have just come.
func (s *session) frames(buf []byte, since time.Duration) {
	s.read, s.chunk = int64(cap(buf)), nil
	if len(buf) > 0 && s.srv.pulse.stale(s.opened.Sub(s.srv.pulse.begin)) {
		s.goodbye(errStoodStill)
	}
	for len(buf) > 0 && !s.closing && !s.closed {
		payload, size, _, _ := wire.NextFrame(buf, wire.MaxFrameBytes)
		if !s.room() || !s.frame(payload, &since) {
			s.later, s.waited.later = buf, s.orNow(since)
			break
		}
		buf = buf[size:]
	}
	s.chunk = nil
}

// frame takes one request, unless there is no room for its answer yet. It may have been here since an uptime, unless
// it shows that it was sent later; what comes late is not carried out, but for what is about the connection itself.
func (s *session) frame(payload []byte, since *time.Duration) bool {
	req := s.r.request(len(s.r.batch))
	req.Op = 0
	id, body, nargs, err := wire.DecodeRequest(payload, req)
	switch {
	case id == 0:
		s.goodbye(err)
		return true
	case s.hello == nil && req.Op != wire.OpHello:
		err = wire.Errorf(wire.FailedPrecondition,
			"the first request of a connection must be hello").By(wire.CauseHelloOrder)
	case err == nil:
		err = req.Validate()
	}
	if _, open := s.waiting[id]; open {
		err = wire.Errorf(wire.InvalidArgument, "request id %d: is in use by a waiting acquire of this connection", id)
	}
	if err != nil {
		s.refuse(id, err)
		return true
	}
	if *since != 0 {
		s.sentAfter(req.Settled, since)
	}
	if req.Op != wire.OpAcquire || req.Flags&wire.FlagWait == 0 { // what a ping settles leaves those aside
		s.sees(id)
	}
	spec, _ := req.Op.Spec()
	control := spec.Kind == wire.KindConnection && req.Op != wire.OpBind && req.Op != wire.OpUnbind
	answer := wire.AnswerOf(req)
	switch {
	case control:
		s.r.serve() // what came before goes first
		s.control(id, req)
	case s.srv.late(*since):
		s.refuse(id, errReadLate)
	case !s.mayAnswer(answer):
		return false
	default:
		s.ask(id, req, answer, body, nargs)
	}
	return true
}

// ask hands a request to the handler, with the next batch.
func (s *session) ask(id uint64, req *wire.Request, answer wire.Answer, body []byte, nargs int) {
	waits := req.Op == wire.OpAcquire && req.Flags&wire.FlagWait != 0
	err := s.admit(waits, len(body))
	if err == nil {
		err = s.bind(id, req)
	}
	if err != nil {
		s.refuse(id, err)
		return
	}
	c := s.r.call()
	c.ID, c.Settled, c.Op, c.Req, c.NArgs, c.Body = id, req.Settled, req.Op, req, nargs, body
	c.Session, c.To = s.hello, s.r
	// Ids grow, so what does not is a repeat. The log cannot tell: what is new may come there
	// behind requests that were asked after it.
	c.Again, s.highest = id <= s.highest, max(s.highest, id)
	a := c.Ctx.(*asked)
	a.s, a.waits = s, waits
	if req.Op == wire.OpBind || req.Op == wire.OpUnbind {
		a.binds = req.Owner
	}
	if waits {
		if s.waiting == nil {
			s.waiting = make(map[uint64]struct{})
		}
		s.waiting[id] = struct{}{}
		// It may stay for long: it must not keep the whole read in memory.
		c.Body = bytes.Clone(body)
		if err := wire.DecodeArgs(req.Op, c.Body, nargs, req); err != nil {
			panic("loop: a request that decoded once does not decode again")
		}
		a.chunk = s.hold(int64(len(body)))
	} else {
		s.inflight++
		switch a.answer = answer; answer {
		case wire.ListedAnswer:
			s.listings++
			c.Turns = s.takesTurns()
		case wire.LongAnswer:
			s.gathers++
		}
		if s.chunk == nil {
			s.chunk = s.hold(s.read)
		}
		a.chunk = s.chunk
	}
	a.chunk.calls++
	if grace, ok := s.boundBy(req.Owner); ok {
		c.Bound, c.Grace = true, grace
	} else if req.Flags&wire.FlagBind != 0 {
		c.Bound, c.Grace = true, s.grace
	}
	s.tied = s.tied || c.Bound
	if s.r.batch = append(s.r.batch, c); len(s.r.batch) == batchCalls {
		s.r.serve()
	}
}

// mayAnswer says that the connection has not as many requests under way as may be whose answers are as long.
func (s *session) mayAnswer(answer wire.Answer) bool {
	switch answer {
	case wire.ListedAnswer:
		return s.listings < wire.MaxListings
	case wire.LongAnswer:
		return s.gathers < wire.MaxGathered
	}
	return true
}

// admit says why a request that came in order is too much.
func (s *session) admit(waits bool, size int) *wire.Error {
	o := &s.srv.opt
	more := int64(0)
	switch {
	case waits && len(s.waiting) >= o.Waiting:
		return wire.Errorf(wire.ResourceExhausted, "%d acquires of this connection wait, at most %d are taken",
			len(s.waiting), o.Waiting)
	case !waits && s.inflight >= o.InFlight:
		return wire.Errorf(wire.ResourceExhausted,
			"%d requests of this connection are not answered yet, at most %d are taken", s.inflight, o.InFlight)
	case waits:
		more = int64(size)
	case s.chunk == nil:
		more = s.read
	}
	return s.affords(more)
}

// affords says why so much more memory is too much.
func (s *session) affords(more int64) *wire.Error {
	o := &s.srv.opt
	if total := s.srv.held.Load() + more; more > 0 && total > o.Held && s.held+more > fairShare {
		return wire.Errorf(wire.ResourceExhausted,
			"the server would hold %d bytes of requests that are not answered yet, at most %d are taken", total, o.Held)
	}
	return nil
}

// hold counts the memory of requests in; drop counts a call out of it.
func (s *session) hold(bytes int64) *chunk {
	s.held += bytes
	s.srv.held.Add(bytes)
	return &chunk{bytes: bytes}
}

func (s *session) drop(c *chunk) {
	if c.calls--; c.calls == 0 {
		s.held -= c.bytes
		s.srv.held.Add(-c.bytes)
	}
}

// answered takes back a call the handler has answered.
func (s *session) answered(c *wire.Call) {
	a := c.Ctx.(*asked)
	if a.waits {
		delete(s.waiting, c.ID)
	} else {
		s.inflight--
		switch a.answer {
		case wire.ListedAnswer:
			s.listings--
		case wire.LongAnswer:
			s.gathers--
		}
	}
	if a.binds != "" {
		s.bondAnswered(a.binds, c.ID, c.Res.Code)
	}
	s.drop(a.chunk)
	if !s.closed {
		s.reply(c.ID, c.Op, &c.Res)
		if c.Turn {
			s.turns.had++
			s.passTurns()
		}
		s.resume()
	} else if s.owes && s.inflight == 0 {
		s.owes = false
		s.leave()
	}
	s.r.free(c)
}
