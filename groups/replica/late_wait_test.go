package replica

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// waitsOf is a machine in which a session has n waits on its first connection behind one lock.
func waitsOf(t *testing.T, n int) (b *bare, s *wire.Session, ask func(s *wire.Session, i int) *bareCall) {
	b, s = newBare(t, rows.FirstLog, DefaultLimits()), bareSession(1)
	if res := b.one(bareAsk(bareSession(2), 1, write("holder", "h:/a/x", time.Hour))); res.Code != wire.OK ||
		res.Status != wire.StatusOK {
		t.Fatalf("%+v", res)
	}
	ask = func(s *wire.Session, i int) *bareCall {
		req := write("waits", "h:/a/x", time.Hour)
		req.QueueTTLMillis, req.Flags = 3_600_000, wire.FlagWait
		return bareAsk(s, uint64(i), req)
	}
	s.Window = 64
	for i := 1; i <= n; i++ {
		if res := b.one(ask(s, i)); res.Code != wire.OK || res.Status != wire.StatusQueued {
			t.Fatalf("wait %d: %+v", i, res)
		}
	}
	return b, s, ask
}

// TestWaitAskedAgainBehindADetach: a wait that the end of its connection has not come to yet is asked
// again on the next connection of its session, an hour before its time in the queue is over: it waits
// again, as one that the end has come to already.
func TestWaitAskedAgainBehindADetach(t *testing.T) {
	const waits = 20 // more than the step sees to that closes a connection
	b, s, ask := waitsOf(t, waits)
	first, last := ask(later(s), 1), ask(later(s), waits)
	b.do(1, bareAsk(s, 0, &wire.Request{Op: wire.OpDetach}), first, last)
	for name, a := range map[string]*bareCall{"first": first, "last": last} {
		if len(a.res) > 0 || len(a.queued) != 1 {
			t.Errorf("the %s wait is answered %+v, queued %+v", name, a.res, a.queued)
		}
	}
}

// TestWaitPassedByAGrantBehindADetach: the lock is released in the entry that ends the connection.
// No wait's time in the queue is over: each that is asked again waits, or is granted.
func TestWaitPassedByAGrantBehindADetach(t *testing.T) {
	const waits = 20
	b, s, ask := waitsOf(t, waits)
	b.do(1, bareAsk(s, 0, &wire.Request{Op: wire.OpDetach}), bareAsk(bareSession(2), 2, &wire.Request{
		Op: wire.OpRelease, Owner: "holder", Releases: []wire.ReleaseRequest{{Path: "h:/a/x"}},
	}))
	b.do(1000)
	for i := 1; i <= waits; i++ {
		if res := b.one(ask(later(s), i)); res.Code != wire.OK {
			t.Errorf("wait %d is answered %v %s", i, res.Code, res.Message)
		}
	}
}
