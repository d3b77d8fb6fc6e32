package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestARepeatedWaitOverTheLimitWhoseCallerGoes: a server does not know what became of a wait (code 4, as when a log was
// without a leader): it has granted it. The wait's place is taken by one that stood aside, and it is to be asked again
// when there is a place. Its caller goes. "If it was granted before that, what it took is released again in the
// background" (Do): a release takes no place of a wait.
func TestARepeatedWaitOverTheLimitWhoseCallerGoes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		limits := testLimits
		limits.Waiting = 1 // 16 384 of a real one
		f := newFake(t)
		c, p := f.limited(limits)
		var waits []*asked
		var released time.Time
		go p.serve(func(a *asked) *wire.Result {
			switch {
			case a.req.Op == wire.OpAcquire && a.req.Flags&wire.FlagWait != 0:
				waits = append(waits, a)
				return nil
			case a.req.Op == wire.OpRelease && a.req.Owner == "me":
				released = time.Now()
			}
			return granted(a.req)
		})
		bg := context.Background()
		ctx, leave := context.WithCancel(bg)
		told := make(chan error, 1)
		go func() {
			_, err := c.Lock(ctx, "a:/n/mine", Owner("me"), TTL(time.Hour))
			told <- err
		}()
		pass(time.Millisecond)
		others, over := context.WithCancel(bg)
		defer over()
		go func() { _, _ = c.Lock(others, "a:/n/other") }() // stands aside
		pass(time.Millisecond)
		if len(waits) != 1 {
			t.Fatalf("%d waits came", len(waits))
		}
		p.reply(waits[0].id, wire.OpAcquire, &wire.Result{Code: wire.DeadlineExceeded,
			Message: "the outcome is not known"})
		pass(100 * time.Millisecond)
		if len(waits) != 2 || waits[1].id == waits[0].id {
			t.Fatalf("%d waits came", len(waits))
		}
		leave()
		if err := <-told; err == nil {
			t.Fatal("it has the lock")
		}
		left := time.Now()
		pass(10 * time.Minute)
		soon, end := context.WithTimeout(bg, time.Minute)
		defer end()
		if _, err := c.TryLock(soon, "a:/n/else", Owner("me")); err != nil {
			t.Errorf("another lock of the owner, on a free path: %v", err)
		}
		if released.IsZero() {
			t.Errorf("%v after the caller went nothing was released: it was granted a:/n/mine for an hour",
				time.Since(left))
		}
	})
}
