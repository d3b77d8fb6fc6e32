package replica

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestTakenOverAsItLapses: a wait relies on a lease that has run out, and whose end no entry had time for. Another
// session asks for the wait by its key. Each call is answered once, and the other session is remembered for as long as
// it waits for something else.
func TestTakenOverAsItLapses(t *testing.T) {
	l := DefaultLimits()
	l.ReapBudget = 1
	b := newBare(t, rows.FirstLog, l)
	holder, first, second := bareSession(0), bareSession(1), bareSession(2)
	id := uint64(1)
	take := func(owner, path string, ttl time.Duration) {
		t.Helper()
		id++
		if res := b.one(bareAsk(holder, id, write(owner, path, ttl))); res.Code != wire.OK ||
			res.Status != wire.StatusOK {
			t.Fatalf("%+v", res)
		}
	}
	take("b", "h:/a/y", time.Hour)
	take("b", "h:/a/z", time.Hour)
	for i := range 10 { // they end before it
		take(fmt.Sprint("f", i), fmt.Sprint("h:/a/f", i), 500*time.Millisecond)
	}
	take("o", "h:/a/x", time.Second)

	relies := func() *wire.Request {
		req := write("o", "h:/a/x", time.Hour)
		req.Locks[0].State = wire.StateHeld
		req.Locks = append(req.Locks, wire.LockRequest{Path: "h:/a/y"})
		req.Flags, req.Key, req.QueueTTLMillis = wire.FlagWait, "key", uint64(time.Hour.Milliseconds())
		return req
	}
	was := bareAsk(first, 1, relies())
	other := write("w", "h:/a/z", time.Hour)
	other.Flags, other.QueueTTLMillis = wire.FlagWait, uint64(time.Hour.Milliseconds())
	waits := bareAsk(second, 1, other)
	for _, a := range []*bareCall{was, waits} {
		if b.one(a); len(a.queued) != 1 {
			t.Fatalf("%+v", a.res)
		}
	}

	now := bareAsk(second, 2, relies())
	if b.do(1500, now); len(was.res) != 1 || len(now.res) != 1 || now.res[0].Status != wire.StatusLost {
		t.Fatalf("who waited is told %+v, and who asks %+v", was.res, now.res)
	}
	if s := b.session(second); s.Waits != b.m.waitsOf(s.id) {
		t.Errorf("the session waits for %d answers, and %d are counted", b.m.waitsOf(s.id), s.Waits)
	}
	b.do(rememberMillis + 2000)
	if b.session(second) == nil {
		t.Error("it is forgotten while it waits")
	}
}
