package engine

import (
	"fmt"
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// dueSystem is a system group that a test asks, one answer of which is kept for a second.
type dueSystem struct {
	t *testing.T
	*System
	done []Done
}

func newDueSystem(t *testing.T) *dueSystem {
	s := &dueSystem{t: t, System: NewSystem()}
	s.SetLimits(secondOfKeys())
	return s
}

func secondOfKeys() Limits {
	l := DefaultLimits()
	l.KeptMillis = 1000
	return l
}

func (s *dueSystem) ask(now int64, req *wire.Request) wire.Result {
	return s.Apply(Clock{Now: now}, &Command{Req: req}, &s.done)
}

// due fails if the next deadline is another one, 0 for none.
func (s *dueSystem) due(want int64, when string) {
	s.t.Helper()
	if at, ok := s.NextDeadline(); at != want || ok != (want != 0) {
		s.t.Errorf("%s: the next deadline is %d, %v, want %d", when, at, ok, want)
	}
}

// restarted is the same read back from its rows.
func (s *dueSystem) restarted() *dueSystem {
	s.t.Helper()
	again := newDueSystem(s.t)
	for row, val := range s.AllRows() {
		if err := again.Load([]byte(row), val); err != nil {
			s.t.Fatal(err)
		}
	}
	again.Loaded()
	return again
}

// TestSystemComesDue: the system group has a deadline while it keeps an answer that ends with time, and at no other
// time. That of a policy change begins when the change is over, however long that takes, and it has none if it is
// refused.
func TestSystemComesDue(t *testing.T) {
	s := newDueSystem(t)
	incr := &wire.Request{Op: wire.OpIncrToken, Key: "k"}
	set := &wire.Request{Op: wire.OpSetPolicy, Namespace: "h:/a", Key: "k"}
	s.due(0, "empty")
	s.ask(1, &wire.Request{Op: wire.OpIncrToken})
	s.due(0, "without a key")
	s.ask(10, incr)
	s.due(1010, "a key")
	s.Expire(1009, 10)
	s.due(1010, "a millisecond before")
	s.restarted().due(1010, "restarted")
	before := s.ask(1009, incr)
	s.Expire(1010, 10)
	s.due(0, "over")
	if after := s.ask(1011, incr); after.Token <= before.Token {
		t.Errorf("the key answers %d when it is over, and %d before", after.Token, before.Token)
	}
	s.Expire(2011, 10)

	change := s.ask(2011, set).Count
	s.due(0, "a change under way")
	s.restarted().due(0, "a change under way, restarted")
	s.Expire(9000, 10)
	if res := s.ask(9000, set); res.Count != change {
		t.Errorf("a repeat while the change is under way: %+v", res)
	}
	s.ask(9000, &wire.Request{Op: wire.OpRouteFinish, Target: change, Attempt: 1})
	s.due(10_000, "the change is done")
	s.Expire(10_000, 10)
	refused := s.ask(10_000, set).Count
	s.ask(10_001, &wire.Request{Op: wire.OpRouteFinish, Target: refused, Detail: "no", Attempt: 1})
	s.due(0, "the change is refused")
}

// TestSystemEndsSomeAtOnce: of answers that are over at one instant an entry drops only so many. A replica that is
// restarted in between drops the same ones next.
func TestSystemEndsSomeAtOnce(t *testing.T) {
	s := newDueSystem(t)
	const keys, once = 100, 7
	for i := range keys {
		s.ask(1, &wire.Request{Op: wire.OpIncrToken, Key: fmt.Sprint(i * 37 % keys)})
	}
	for left := keys; left > 0; left -= once {
		s.due(1001, "some are left")
		again := s.restarted()
		want := min(once, left)
		if a, b := s.Expire(1001, once), again.Expire(1001, once); a != want || b != want ||
			s.Digest() != again.Digest() {
			t.Fatalf("with %d left %d are dropped, and %d by a replica that was restarted; digests are equal: %v",
				left, a, b, s.Digest() == again.Digest())
		}
	}
	s.due(0, "all are dropped")
}
