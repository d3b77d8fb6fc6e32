package loop

import (
	"errors"
	"syscall"

	"github.com/pathlockd/pathlockd/wire"
)

// spillAt is how much output is gathered before it is written in the middle of a
// burst, bytes.
const spillAt = 256 << 10

// reply appends an answer to the output.
func (s *session) reply(id uint64, op wire.Op, res *wire.Result) {
	if s.closed || s.closing {
		return
	}
	s.begin()
	from := len(s.out)
	if s.out = wire.AppendReply(s.out, id, op, res); s.tooLong(op, len(s.out)-from) {
		var refusal wire.Result
		refusal.Fail(wire.Errorf(wire.ResourceExhausted,
			"%d bytes of answers would be unread on this connection, at most %d are kept: read them first",
			s.backlog(), mostUnread))
		s.out = wire.AppendReply(s.out[:from], id, op, &refusal)
	}
	s.spill()
}

// mostUnread bounds the answers of reads that a connection leaves unread, bytes: there is room for what is gathered,
// twice wire.MaxGathered frames, and for what was asked before the server stopped reading.
const mostUnread = 72 << 20

// tooLong says that there is no room for the answer of so many bytes that was appended last,
// and that whoever asked may as well ask again.
func (s *session) tooLong(op wire.Op, bytes int) bool {
	spec, ok := op.Spec()
	return ok && spec.Kind == wire.KindRead && bytes > fairShare && s.backlog() > mostUnread
}

// backlog is the bytes that the peer has not taken.
func (s *session) backlog() int {
	if s.lane == nil {
		return len(s.out)
	}
	return len(s.out) + int(s.lane.unsent.Load())
}

// room says that the peer has taken enough of what it is sent to be asked what else it
// wants.
func (s *session) room() bool { return s.lane == nil || s.backlog() <= s.srv.opt.Outbound }

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
	switch {
	case !s.closing || s.closed || s.moving:
	case s.lane != nil:
		s.unread -= s.lane.finish(true, s.unread)
		s.gone()
	case s.r.reading != s:
		_ = s.r.loop.Close(s.conn) // it may be gone already
	}
	if s.lane != nil && !s.closed {
		s.lane.flushed()
	}
}

// send writes the output. What the peer has no room for is left to a lane.
func (s *session) send() {
	if s.closed || s.moving {
		return
	}
	if len(s.out) > 0 && !s.broken {
		unread, o := s.backlog(), &s.srv.opt
		all := s.srv.unread.Load() + int64(unread) - s.unread
		switch {
		case all > o.Unread && s.lane != nil && unread > fairShare:
			o.Log.Info("cut a client off that does not read", "peer", s.lane.conn.RemoteAddr(), "unread_bytes", unread,
				"all_unread_bytes", all)
			s.closing, s.broken = true, true
			_ = s.lane.conn.Close()
		case s.lane != nil:
			s.lane.put(s.out)
			s.out = nil
		default:
			s.writeOut()
		}
	}
	if s.out != nil {
		s.r.keep(s.out)
		s.out = nil
	}
	if !s.closed {
		s.count()
	}
}

// writeOut writes what the peer has room for, and departs with the rest.
func (s *session) writeOut() {
	out := s.out
	for len(out) > 0 {
		n, err := syscall.Write(s.conn.Fd(), out)
		switch {
		case n > 0:
			out = out[n:]
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			s.out = nil // it is the lane's
			s.depart(out)
			return
		default:
			_ = s.r.loop.Close(s.conn) // and gone is called
			return
		}
	}
}

// count counts the bytes that the peer has not taken.
func (s *session) count() {
	n := int64(0)
	if !s.closed {
		n = int64(s.backlog())
	}
	s.srv.unread.Add(n - s.unread)
	s.unread = n
}
