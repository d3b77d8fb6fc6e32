package loop

import "github.com/pathlockd/pathlockd/wire"

// spillAt is how much output is gathered before it is written in the middle of a
// burst, bytes.
const spillAt = 256 << 10

// reply appends an answer to the output.
func (s *session) reply(id uint64, op wire.Op, res *wire.Result) {
	if s.closed || s.closing {
		return
	}
	s.begin()
	s.out = wire.AppendReply(s.out, id, op, res)
	s.spill()
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
	s.spill()
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

// spill writes output that got long before its burst is over.
func (s *session) spill() {
	if len(s.out) >= spillAt {
		s.send()
	}
}

// flush writes the output, and closes the connection if it is to be.
func (s *session) flush() {
	s.queued = false
	s.send()
	if s.closing && !s.closed && s.r.reading != s {
		_ = s.r.loop.Close(s.conn) // it may be gone already
	}
}

// send writes the output, or gives a peer up that does not read it.
func (s *session) send() {
	if s.closed {
		return
	}
	if len(s.out) > 0 {
		unread, o := s.conn.OutboundBuffered()+len(s.out), &s.srv.opt
		all := s.srv.unread.Load() + int64(unread) - s.unread
		if unread > o.Outbound || all > o.Unread && unread > fairShare {
			o.Log.Info("cut a client off that does not read", "peer", s.conn.RemoteAddr(), "unread_bytes", unread, "all_unread_bytes", all)
			s.closing = true
		} else {
			_, _ = s.conn.Write(s.out) // an error closes the connection, and gone is called
		}
	}
	if s.out != nil {
		s.r.keep(s.out)
		s.out = nil
	}
	if !s.closed {
		s.backlog(s.conn.OutboundBuffered())
	}
}

// backlog counts the bytes that the peer has not taken.
func (s *session) backlog(n int) {
	s.srv.unread.Add(int64(n) - s.unread)
	s.unread = int64(n)
}
