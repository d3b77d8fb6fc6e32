package engine

import (
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAgingAfterAnotherLeaderEpoch: how long answers are kept travels in the log (limits.go), as builds differ in it:
// whoever takes leader epoch states it. A replica of the system log that was restarted in between decides as one that
// was not.
func TestAgingAfterAnotherLeaderEpoch(t *testing.T) {
	limits := DefaultLimits()
	s := NewSystem()
	s.SetLimits(limits)
	incr := func(s *System, now int64, key string) wire.Result {
		var done []Done
		return s.Apply(Clock{Now: now}, &Command{Req: &wire.Request{Op: wire.OpIncrToken, Key: key}}, &done)
	}
	incr(s, 1, "x")
	limits.KeptMillis = 60_000 // a leader of another build
	s.SetLimits(limits)
	incr(s, 2, "y")
	again := NewSystem() // a replica that is restarted here
	for row, val := range s.AllRows() {
		if err := again.Load([]byte(row), val); err != nil {
			t.Fatal(err)
		}
	}
	again.Loaded()
	again.SetLimits(limits)
	if s.Digest() != again.Digest() {
		t.Fatal("a state that was loaded is another one")
	}
	a, b := incr(s, 61_000, "y"), incr(again, 61_000, "y")
	if a.Token != b.Token || s.Digest() != again.Digest() {
		t.Errorf("one entry later: the replica that was not restarted answers token %d and has the counter %d, the "+
			"one that was answers %d and has %d; digests are equal: %v",
			a.Token, s.Counter(), b.Token, again.Counter(), s.Digest() == again.Digest())
	}
}
