package loop

import (
	"bytes"
	"crypto/rand"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/pathlockd/pathlockd/wire"
)

// session is one connection. All its methods run on its loop.
type session struct {
	srv  *Server
	r    *reactor
	conn gnet.Conn

	hello    *wire.Session // nil until the client said hello
	inflight int           // calls not yet answered, waiting ones aside
	waiting  map[uint64]bool
	bound    map[string]uint64 // grace in ms, by owner
	grace    uint64            // ms, of leases tied by their requests
	tied     bool              // a lease may be tied to the connection
	subs     map[uint64]*wire.Subscription
	lastSub  uint64
	unwatch  func()

	out     []byte // to be written by flush
	queued  bool   // in the reactor's dirty list
	closing bool   // to be closed once out is written
	closed  bool   // the connection is gone
	told    bool   // the handler knows
	partial int64  // bytes of an unfinished frame
	need    int    // bytes the frame at the front takes, 0 if not known
	opened  time.Time
	began   time.Time // when the unfinished frame did
}

// receive takes what the connection has read.
func (s *session) receive() gnet.Action {
	s.r.reading = s
	s.read()
	s.r.serve()
	s.r.flush()
	s.r.reading = nil
	if s.closing && !s.closed {
		return gnet.Close
	}
	return gnet.None
}

func (s *session) read() {
	have := s.conn.InboundBuffered()
	if s.closing {
		s.discard(have)
		return
	}
	if have < s.need {
		s.unfinished(have)
		return
	}
	buf, err := s.conn.Peek(have)
	if err != nil {
		return
	}
	whole, need, err := wholeFrames(buf)
	s.need = need
	if whole > 0 {
		// The bytes belong to the loop; what is asked outlives them.
		own := bytes.Clone(buf[:whole])
		s.discard(whole)
		s.frames(own)
	}
	if err != nil {
		s.goodbye(wire.Errorf(wire.InvalidArgument, "%v (%d bytes at most)", err, wire.MaxFrameBytes))
	}
	s.unfinished(have - whole)
}

// discard drops input; gnet answers no error to a length it told itself.
func (s *session) discard(n int) { _, _ = s.conn.Discard(n) }

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

// unfinished accounts for the bytes of a frame that is not all there.
func (s *session) unfinished(n int) {
	if s.closed {
		return
	}
	if n > 0 && s.partial == 0 {
		s.began = time.Now()
	}
	total := s.srv.partial.Add(int64(n) - s.partial)
	s.partial = int64(n)
	if total > s.srv.opt.Inbound && n > 64<<10 {
		s.goodbye(wire.Errorf(wire.ResourceExhausted, "the server holds %d bytes of unfinished frames, too many for one more", total))
	}
}

// frames takes whole frames, which are the session's own.
func (s *session) frames(buf []byte) {
	for len(buf) > 0 && !s.closing {
		payload, size, _, _ := wire.NextFrame(buf, wire.MaxFrameBytes)
		buf = buf[size:]
		s.frame(payload)
	}
}

// frame takes one request.
func (s *session) frame(payload []byte) {
	req := s.r.request(len(s.r.batch))
	id, body, nargs, err := wire.DecodeRequest(payload, req)
	if id == 0 {
		s.goodbye(err)
		return
	}
	if err == nil {
		err = req.Validate()
	}
	if err == nil && s.hello == nil && req.Op != wire.OpHello {
		err = wire.Errorf(wire.FailedPrecondition, "the first request of a connection must be hello")
	}
	if err != nil {
		s.refuse(id, err)
		return
	}
	if spec, _ := req.Op.Spec(); spec.Kind == wire.KindConnection && req.Op != wire.OpBind && req.Op != wire.OpUnbind {
		s.r.serve() // what came before goes first
		s.control(id, req)
		return
	}
	s.ask(id, req, body, nargs)
}

// ask hands a request to the handler, with the next batch.
func (s *session) ask(id uint64, req *wire.Request, body []byte, nargs int) {
	waits := req.Op == wire.OpAcquire && req.Flags&wire.FlagWait != 0
	switch {
	case waits && len(s.waiting) >= s.srv.opt.Waiting:
		s.refuse(id, wire.Errorf(wire.ResourceExhausted, "%d acquires of this connection wait, at most %d are taken", len(s.waiting), s.srv.opt.Waiting))
		return
	case s.waiting[id]:
		s.refuse(id, wire.Errorf(wire.InvalidArgument, "request id %d: is in use by a waiting acquire of this connection", id))
		return
	case !waits && s.inflight >= s.srv.opt.InFlight:
		s.refuse(id, wire.Errorf(wire.ResourceExhausted, "%d requests of this connection are not answered yet, at most %d are taken", s.inflight, s.srv.opt.InFlight))
		return
	}
	if err := s.bind(req); err != nil {
		s.refuse(id, err)
		return
	}
	c := s.r.call()
	c.ID, c.Op, c.Req, c.NArgs, c.Body = id, req.Op, req, nargs, body
	c.Session, c.To, c.Ctx = s.hello, s.r, s
	if waits {
		if s.waiting == nil {
			s.waiting = make(map[uint64]bool)
		}
		s.waiting[id] = true
		// It may stay for long: it must not keep the whole read in memory.
		c.Body = bytes.Clone(body)
		if err := wire.DecodeArgs(req.Op, c.Body, nargs, req); err != nil {
			panic("loop: a request that decoded once does not decode again")
		}
	} else {
		s.inflight++
	}
	if grace, ok := s.bound[req.Owner]; ok {
		c.Bound, c.Grace = true, grace
	} else if req.Flags&wire.FlagBind != 0 {
		c.Bound, c.Grace = true, s.grace
	}
	s.tied = s.tied || c.Bound
	if s.r.batch = append(s.r.batch, c); len(s.r.batch) == batchCalls {
		s.r.serve()
	}
}

// bind keeps the list of owners that hang on the connection.
func (s *session) bind(req *wire.Request) *wire.Error {
	switch req.Op {
	case wire.OpBind:
		if _, again := s.bound[req.Owner]; !again && len(s.bound) >= s.srv.opt.BoundOwners {
			return wire.Errorf(wire.ResourceExhausted, "%d owners are bound to this connection, at most %d are taken", len(s.bound), s.srv.opt.BoundOwners)
		}
		if s.bound == nil {
			s.bound = make(map[string]uint64)
		}
		s.bound[string([]byte(req.Owner))] = req.GraceMillis
	case wire.OpUnbind:
		delete(s.bound, req.Owner)
	}
	return nil
}

// control carries out what is about the connection itself.
func (s *session) control(id uint64, req *wire.Request) {
	var res wire.Result
	switch req.Op {
	case wire.OpHello:
		if err := s.greet(req.Hello, &res); err != nil {
			s.refuse(id, err)
			return
		}
	case wire.OpCancel:
		s.srv.handler.Cancel(s.hello, req.Target)
	case wire.OpSubscribe:
		if err := s.subscribe(req, &res); err != nil {
			s.refuse(id, err)
			return
		}
	case wire.OpUnsubscribe:
		if sub := s.subs[req.Target]; sub != nil {
			s.srv.handler.Unsubscribe(sub)
			delete(s.subs, req.Target)
		}
	case wire.OpTopology:
		s.topology(req.Watch, &res)
	}
	s.reply(id, req.Op, &res)
}

// greet opens the session.
func (s *session) greet(h *wire.Hello, res *wire.Result) *wire.Error {
	if s.hello != nil {
		return wire.Errorf(wire.FailedPrecondition, "hello: was said already")
	}
	ws := &wire.Session{Epoch: max(h.Epoch, 1), Meta: bytes.Clone(h.Meta), Window: uint32(min(h.Window, uint64(s.srv.opt.InFlight)))}
	if ws.Window == 0 {
		ws.Window = uint32(s.srv.opt.InFlight)
	}
	if len(h.Session) == 0 {
		if _, err := rand.Read(ws.ID[:]); err != nil {
			panic(err) // crypto/rand never fails on supported systems
		}
	} else {
		copy(ws.ID[:], h.Session)
	}
	if err := s.srv.enter(s, ws); err != nil {
		return err
	}
	s.hello, s.grace = ws, h.Grace
	o := &s.srv.opt
	res.List = &wire.List{Welcome: &wire.Welcome{
		Version: min(h.MaxVersion, wire.MaxProtocol), NodeID: o.NodeID, ClusterID: o.ClusterID,
		Session: ws.ID[:], Epoch: ws.Epoch, Limits: o.limits(), ServerVersion: o.Version,
	}}
	return nil
}

func (s *session) subscribe(req *wire.Request, res *wire.Result) *wire.Error {
	if len(s.subs) >= s.srv.opt.Subscriptions {
		return wire.Errorf(wire.ResourceExhausted, "%d subscriptions are on this connection, at most %d are taken", len(s.subs), s.srv.opt.Subscriptions)
	}
	s.lastSub++
	sub := &wire.Subscription{
		Owner: string([]byte(req.Owner)), Kinds: req.Kinds, Number: s.lastSub, Sink: &sink{s: s},
	}
	if len(req.Positions) > 0 {
		sub.From = append(sub.From, req.Positions...)
	}
	if s.subs == nil {
		s.subs = make(map[uint64]*wire.Subscription)
	}
	s.subs[sub.Number] = sub
	cursor, err := s.srv.handler.Subscribe(sub)
	if err != nil {
		delete(s.subs, sub.Number)
		return err
	}
	res.Count, res.List = sub.Number, &wire.List{Positions: cursor}
	return nil
}

func (s *session) topology(watch bool, res *wire.Result) {
	var tell func(*wire.Topology)
	if s.unwatch != nil {
		s.unwatch()
		s.unwatch = nil
	}
	if watch {
		tell = func(t *wire.Topology) { s.r.post(item{s: s, buf: wire.AppendTopology(nil, t)}) }
	}
	t, stop := s.srv.handler.Topology(tell)
	if watch {
		s.unwatch = stop
	}
	res.List = &wire.List{Topology: t}
}

// sink delivers events to a session. Its methods are called by any goroutine, one
// at a time for each subscription.
type sink struct {
	s      *session
	number uint64
}

// Deliver implements wire.EventSink.
func (k *sink) Deliver(sub *wire.Subscription, kind wire.EventKind, path, namespace string, token int64, at wire.Position) {
	k.number++
	k.s.r.post(item{s: k.s, buf: wire.AppendEvent(nil, &wire.Event{
		Subscription: sub.Number, Number: k.number, Kind: kind, Owner: sub.Owner, Path: path,
		Namespace: namespace, Token: token, At: at,
	})})
}

// Progress implements wire.EventSink.
func (k *sink) Progress(sub *wire.Subscription, cursor []wire.Position) {
	p := &wire.Progress{Subscription: sub.Number, Cursor: cursor}
	k.s.r.post(item{s: k.s, buf: wire.AppendProgress(nil, wire.PushProgress, p)})
}

// Gap implements wire.EventSink.
func (k *sink) Gap(sub *wire.Subscription, cursor []wire.Position) {
	p := &wire.Progress{Subscription: sub.Number, Cursor: cursor}
	k.s.r.post(item{s: k.s, buf: wire.AppendProgress(nil, wire.PushGap, p)})
}

// answered takes back a call the handler has answered.
func (s *session) answered(c *wire.Call) {
	if s.waiting[c.ID] && c.Op == wire.OpAcquire {
		delete(s.waiting, c.ID)
	} else {
		s.inflight--
	}
	if !s.closed {
		s.reply(c.ID, c.Op, &c.Res)
	} else if s.inflight == 0 {
		s.leave()
	}
	s.r.free(c)
}

// reply appends an answer to the output.
func (s *session) reply(id uint64, op wire.Op, res *wire.Result) {
	if s.closed {
		return
	}
	s.begin()
	s.out = wire.AppendReply(s.out, id, op, res)
}

// refuse answers a request that breaks a rule.
func (s *session) refuse(id uint64, err *wire.Error) {
	var res wire.Result
	res.Fail(err)
	s.reply(id, wire.OpPing, &res)
}

// write appends bytes to the output.
func (s *session) write(b []byte) {
	if s.closed || s.closing {
		return
	}
	s.begin()
	s.out = append(s.out, b...)
}

// begin makes room for output, and has it flushed at the end of the burst.
func (s *session) begin() {
	if s.out == nil {
		s.out = s.r.buffer()
	}
	if !s.queued {
		s.queued = true
		s.r.dirty = append(s.r.dirty, s)
	}
}

// goodbye says why, and closes the connection once that is written.
func (s *session) goodbye(err *wire.Error) {
	if s.closing || s.closed {
		return
	}
	s.begin()
	s.out = wire.AppendGoodbye(s.out, err)
	s.closing = true
}

// flush writes the output, or cuts a peer off that does not read it.
func (s *session) flush() {
	s.queued = false
	if s.closed {
		return
	}
	unread := s.conn.OutboundBuffered()
	if unread+len(s.out) > s.srv.opt.Outbound {
		s.srv.opt.Log.Info("cut a client off that does not read", "peer", s.conn.RemoteAddr(), "unread_bytes", unread+len(s.out))
		s.closing = true
	} else if len(s.out) > 0 {
		_, _ = s.conn.Write(s.out) // an error closes the connection, and gone is called
	}
	if s.out != nil {
		s.r.keep(s.out)
		s.out = nil
	}
	if s.closing && !s.closed && s.r.reading != s {
		_ = s.r.loop.Close(s.conn) // it may be gone already
	}
}

// sweep closes the connection if it keeps the server waiting.
func (s *session) sweep(now time.Time) {
	switch {
	case s.hello == nil && now.Sub(s.opened) > s.srv.opt.HelloWithin:
		s.goodbye(wire.Errorf(wire.DeadlineExceeded, "no hello within %v", s.srv.opt.HelloWithin))
	case s.partial > 0 && now.Sub(s.began) > s.srv.opt.FrameWithin:
		s.goodbye(wire.Errorf(wire.DeadlineExceeded, "a frame was not finished within %v", s.srv.opt.FrameWithin))
	}
}

// gone is called when the connection is closed.
func (s *session) gone() {
	s.closed = true
	s.srv.partial.Add(-s.partial)
	s.partial = 0
	delete(s.r.sessions, s)
	if s.out != nil {
		s.r.keep(s.out)
		s.out = nil
	}
	for _, sub := range s.subs {
		s.srv.handler.Unsubscribe(sub)
	}
	s.subs = nil
	if s.unwatch != nil {
		s.unwatch()
	}
	if s.inflight == 0 {
		s.leave()
	}
}

// leave tells the handler, once nothing but waits is left.
func (s *session) leave() {
	if s.hello == nil || s.told {
		return
	}
	s.told = true
	s.srv.handler.Closed(s.hello, s.tied, s.srv.exit(s))
}
