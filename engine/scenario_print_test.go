package engine

import (
	"fmt"
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// tell writes a command's answer, then what happened beside it.
func (s *script) tell(who, answer string, out *Output) {
	fmt.Fprintf(&s.say, "%s: %s\n", who, answer)
	s.tellEvents(out)
}

func (s *script) tellEvents(out *Output) {
	for _, e := range out.Events {
		fmt.Fprintf(&s.say, "  %v %s%s\n", e.Kind, e.Owner, fields(e.Path, "", e.Token, 0, e.Namespace, 0))
	}
	for _, a := range out.Answers {
		name := strings.TrimRight(string(a.Caller.Session[:]), "\x00")
		fmt.Fprintf(&s.say, "  call %s/%d: %s\n", name, a.Caller.ID, acquireText(&a.Result))
	}
}

// fields writes those fields of a result that are not empty.
func fields(path, owner string, token, current int64, ns string, position uint64) string {
	var b strings.Builder
	if path != "" {
		b.WriteString(" " + path)
	}
	if owner != "" {
		b.WriteString(" by " + owner)
	}
	if token != 0 {
		fmt.Fprintf(&b, " token=%d", token)
	}
	if current != 0 {
		fmt.Fprintf(&b, " current=%d", current)
	}
	if ns != "" {
		b.WriteString(" ns=" + ns)
	}
	if position != 0 {
		fmt.Fprintf(&b, " pos=%d", position)
	}
	return b.String()
}

func refusal(res *wire.Result) string {
	text := res.Code.String() + ": " + res.Message
	if res.Position == Moved {
		text += fmt.Sprintf(" (routes %d)", res.Count)
	}
	return text
}

func reasonText(r wire.Reason) string {
	if r == wire.ReasonUnspecified {
		return ""
	}
	return " " + r.String()
}

func acquireText(res *wire.Result) string {
	if res.Code != wire.OK {
		return refusal(res)
	}
	return res.Status.String() + reasonText(res.Reason) +
		fields(res.Path, res.Owner, res.Token, res.Current, res.Namespace, res.Position)
}

// renewText is the answer of renew and bind, whose second status is LOST.
func renewText(res *wire.Result) string {
	text := "OK"
	switch {
	case res.Code != wire.OK:
		return refusal(res)
	case res.Status == wire.RenewLost:
		text = "LOST"
	}
	text += reasonText(res.Reason) + fields(res.Path, "", 0, 0, "", 0)
	if res.Flag {
		text += " revoke_requested"
	}
	return text
}

func emptyText(res *wire.Result) string {
	if res.Code != wire.OK {
		return refusal(res)
	}
	return "OK"
}

// span is a time on the lease clock.
func span(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func lockText(i *wire.LockInfo) string {
	text := fmt.Sprintf("\n  %s %v by %s", i.Path, i.Mode, i.Owner)
	if i.HasFence {
		text += fmt.Sprintf(" fence=%d", i.Fence)
	}
	return text
}

// lockDetail is a lock as describe shows it.
func lockDetail(i *wire.LockInfo) string {
	text := lockText(i) + fmt.Sprintf(" %v since +%s for %s",
		i.Algorithm, span(i.SinceUnixMillis-scriptWall), span(int64(i.ExpiresInMillis)))
	if i.Permits > 0 {
		text += fmt.Sprintf(" permits=%d", i.Permits)
	}
	return text + metaText(i.Meta)
}

func metaText(b []byte) string {
	m, err := wire.DecodeMetadata(b)
	switch {
	case err != nil:
		return err.Error()
	case len(b) == 0:
		return ""
	}
	return " on " + m.Host
}

// state: everything there is
func (s *script) state(*scriptLine) {
	st := s.at.replicas[0].state
	fmt.Fprintf(&s.say, "state: counter=%d arrivals=%d version=%d\n", st.counter, st.seq, st.version)
	line := func(format string, args ...any) bool {
		fmt.Fprintf(&s.say, "  "+format+"\n", args...)
		return true
	}
	st.policies.All().Ascend(func(ns string, p *policy) bool { return line("policy %s %v", ns, p.algorithm) })
	for _, f := range st.floors {
		line("floor %s %d", f.Root, f.Token)
	}
	for _, f := range st.frozen {
		line("frozen %s above=%s until=%d", f.root, f.above, f.until)
	}
	st.leases.All().Ascend(func(_ string, l *lease) bool {
		if !l.held() {
			return line("record %s ns=%s", l.owner, l.ns)
		}
		return line("lease %s ns=%s until %s", l.owner, l.ns, span(l.deadline))
	})
	st.holds.All().Ascend(func(key string, h *hold) bool {
		switch {
		case h.owner == "":
			return line("fence %s %d", pathOf(key), h.token)
		case h.alg == wire.Semaphore:
			return line("permit %s by %s of %d", pathOf(key), h.owner, h.permits)
		}
		return line("%v %s by %s%s", h.mode, pathOf(key), h.owner, fields("", "", h.token, 0, "", 0))
	})
	st.waiters.All().Ascend(func(key string, w *waiter) bool {
		paths := make([]string, len(w.wants))
		for i, k := range w.wants {
			paths[i] = pathOf(k.key)
		}
		return line("waiter %d %s for %s token=%d until %s", seqOf(key), w.owner, strings.Join(paths, " "), w.token,
			span(w.deadline))
	})
	st.marks.All().Ascend(func(ns string, m *int64) bool { return line("mark %s %d", ns, *m) })
	st.edges.All().Ascend(func(owner string, e *edge) bool {
		return line("edge %s to %s until %s", owner, e.blocker, span(e.deadline))
	})
	st.kept.All().Ascend(func(key string, k *kept) bool {
		return line("kept %v %s %v until %s", wire.Op(key[0]), strings.ReplaceAll(key[1:], "\x00", " "), k.status,
			span(k.deadline))
	})
}
