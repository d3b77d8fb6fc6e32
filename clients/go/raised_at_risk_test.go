package pathlockd

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// raisedAtRisk: "me" holds 20 000 paths and a lock behind them, whose token a request of the program for its path and
// another one has raised. A place in the queue, which the program has, would give the path back when its turn comes.
// Answers take 100 ms, so that all that "me" holds is told twice as late as such a lock is believed in.
func raisedAtRisk(t *testing.T) (*timed, *Lock) {
	t.Helper()
	c, s := newTimed(t)
	manyBefore(t, c, 20_000)
	l := hours(t, c, "a:/b/p")
	s.takes(always(100*time.Millisecond, nil))
	pass(time.Minute)
	asksFor(t, c, &wire.Request{
		Owner: "me", TTLMillis: millis(time.Hour), Flags: wire.FlagNoQueue,
		Locks: []wire.LockRequest{{Path: "a:/b/p"}, {Path: "a:/b/q"}},
	}, wire.StatusOK)
	pass(time.Minute)
	s.isHeld(l)
	if !s.rival("a:/b/d") {
		t.Fatal("this shows nothing")
	}
	asksFor(t, c, &wire.Request{
		Owner: "me", TTLMillis: millis(time.Hour), QueueTTLMillis: 60_000,
		Locks: []wire.LockRequest{{Path: "a:/b/d"}}, Releases: []wire.ReleaseRequest{{Path: "a:/b/p"}},
	}, wire.StatusQueued)
	return s, l
}

// TestRaisedAtRisk: nothing is given back.
func TestRaisedAtRisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, l := raisedAtRisk(t)
		pass(5 * askedWithin)
		s.isHeld(l)
	})
}

// TestTakenAnewAtRisk: another client of "me" gives the path back and takes it anew: that is another hold.
func TestTakenAnewAtRisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, l := raisedAtRisk(t)
		s.other(&wire.Request{Op: wire.OpRelease, Owner: "me", Releases: []wire.ReleaseRequest{{Path: "a:/b/p"}}})
		pass(time.Millisecond)
		s.other(&wire.Request{
			Op: wire.OpAcquire, Owner: "me", TTLMillis: millis(time.Hour), Flags: wire.FlagNoQueue,
			Locks: []wire.LockRequest{{Path: "a:/b/p"}},
		})
		pass(askedWithin + time.Second)
		if l.Err() == nil {
			t.Errorf("the path was taken anew, and the lock counts as held\n%s", s.happened())
		}
	})
}
