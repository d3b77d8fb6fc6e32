package engine

import (
	"slices"
	"strings"

	"github.com/pathlockd/pathlockd/wire"
)

// bind OWNER grace= [ttl=] session= epoch=
func (s *script) bind(l *scriptLine) {
	req := &wire.Request{Op: wire.OpBind, Owner: s.word(l, 0), TTLMillis: s.millis(l.opt("ttl", "0s"))}
	req.GraceMillis = s.millis(l.opt("grace", "0s"))
	res, out := s.apply(l, req, "")
	s.tell(req.Owner, renewText(&res), out)
}

// unbind OWNER session=
func (s *script) unbind(l *scriptLine) {
	s.plain(l, &wire.Request{Op: wire.OpUnbind, Owner: s.word(l, 0)})
}

// detach OWNER session= epoch=
func (s *script) detach(l *scriptLine) {
	s.plain(l, &wire.Request{Op: wire.OpDetach, Owner: s.word(l, 0)})
}

// cancel SESSION/CALL grace=
func (s *script) cancel(l *scriptLine) {
	name, call, _ := strings.Cut(s.word(l, 0), "/")
	req := &wire.Request{Op: wire.OpCancelWait, Target: uint64(s.number(call))}
	req.GraceMillis = s.millis(l.opt("grace", "0s"))
	cmd := s.command(l, req, "")
	cmd.Caller.Session = session(name)
	res, out := s.at.apply(s.clock, cmd)
	s.tell("cancel", emptyText(&res), out)
}

// repeat COMMAND: its session asks once more, having got the first answer or not
func (s *script) repeat(l *scriptLine) {
	again, cmd := s.again(l)
	first, ok := s.answers[again.text]
	if !ok {
		s.fail("was never asked: %s", again.text)
	}
	res, out := s.at.stepWith(cmd, func(r *scriptReplica, cmd *Command) wire.Result {
		return r.state.Repeat(s.clock, cmd, &first, &r.out)
	})
	text := acquireText(&res)
	if cmd.Req.Op == wire.OpRenew {
		text = renewText(&res)
	}
	s.tell(cmd.Req.Owner, text, out)
}

// waiting COMMAND: its session asks once more while the first call is open
func (s *script) waiting(l *scriptLine) {
	_, cmd := s.again(l)
	open := false
	res, out := s.at.stepWith(cmd, func(r *scriptReplica, cmd *Command) (res wire.Result) {
		res, open = r.state.Waiting(s.clock, cmd, &r.out)
		return res
	})
	text := "no open call"
	if open {
		text = acquireText(&res)
	}
	s.tell(cmd.Req.Owner, text, out)
}

// again reads the command inside a repeat.
func (s *script) again(l *scriptLine) (*scriptLine, *Command) {
	again := *l
	again.verb, again.words = s.word(l, 0), slices.Clone(l.words[1:])
	again.text = strings.Join(strings.Fields(l.text)[1:], " ")
	if again.verb == "renew" {
		return &again, s.renewCommand(&again)
	}
	return &again, s.acquireCommand(&again)
}
