package pathlockd

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestCostBehindWhatIsAskedAgain: many callers wait for locks at a break, and before them the program asked more of a
// stuck log than the next connection's smaller window has room for. What comes meanwhile does not pay for all that is
// to be asked again.
func TestCostBehindWhatIsAskedAgain(t *testing.T) {
	few, many := time.Hour, time.Hour
	for range 2 {
		few, many = min(few, costBehind(t, 512)), min(many, costBehind(t, 16_384))
	}
	t.Logf("a request takes %v behind 512 waits, %v behind 16384", few, many)
	if many > 8*few+2*time.Microsecond {
		t.Errorf("a request takes %v behind 512 waits, and %v behind 16384", few, many)
	}
}

// costBehind is what a request takes then, behind so many waits.
func costBehind(t *testing.T, waits int) time.Duration {
	t.Helper()
	f := newFake(t)
	c, p, way := onLine(f, WithGrace(longGrace), WithKeepAlive(time.Hour), WithBacklog(1<<16))
	limits := testLimits
	limits.Waiting = 16384
	go p.serve(func(a *asked) *wire.Result { return nil })
	for i := range 40 {
		c.Go(&wire.Request{Op: wire.OpRelease, Owner: "sick",
			Releases: []wire.ReleaseRequest{{Path: fmt.Sprintf("a:/s/%d", i)}}}, nil)
	}
	s := &c.home.session
	s.mu.Lock()
	s.mu.limits.waiting = 16384 // as that server said
	s.mu.Unlock()
	for i := range waits {
		c.Go(&wire.Request{
			Op: wire.OpAcquire, Owner: "o", TTLMillis: 60_000, Flags: wire.FlagWait,
			Locks: []wire.LockRequest{{Path: fmt.Sprintf("a:/w/%d", i)}},
		}, nil)
	}
	is := func(so func() bool) func() bool {
		return func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return so()
		}
	}
	eventually(t, "all are sent", is(func() bool { return s.mu.waits == waits && s.mu.flying == 40 }))
	way.cut(errUnreachable)
	eventually(t, "they are to be asked again", is(func() bool { return s.mu.conn == nil && s.mu.again.first != nil }))
	way.cut(nil)
	p = f.accept()
	limits.InFlight = 32
	p.welcome(limits)
	go p.serve(func(a *asked) *wire.Result { return nil })
	eventually(t, "the window is full of them",
		is(func() bool { return s.mu.conn != nil && s.mu.flying == s.mu.limits.users }))
	const n = 1000
	began := time.Now()
	for range n {
		c.Go(&wire.Request{Op: wire.OpRelease, Owner: "o", Releases: []wire.ReleaseRequest{{Path: "a:/x/y"}}}, nil)
	}
	took := time.Since(began) / n
	_ = c.Close()
	return took
}
