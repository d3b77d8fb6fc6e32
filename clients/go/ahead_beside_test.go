package pathlockd

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRenewalsBesideStuckUsersStarveTheRest: some of users' requests, fewer than they may have under way, are of a
// log without a leader, which answers after 30 s. The program keeps renewals of an owner of another log under way.
// What else it asks of that log, where all is well, is sent.
func TestRenewalsBesideStuckUsersStarveTheRest(t *testing.T) {
	for _, stuck := range []int{0, 100, 225, 234, 238, 239} {
		t.Run(fmt.Sprint(stuck), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.telling(WithGrace(longGrace), WithBacklog(4096))
				go p.serve(func(a *asked) *wire.Result {
					if a.req.Owner == "sick" {
						time.AfterFunc(30*time.Second, func() { p.refuse(a, wire.Unavailable) })
						return nil
					}
					time.AfterFunc(100*time.Millisecond, func() { p.ok(a) })
					return nil
				})
				l, err := c.TryLock(t.Context(), "a:/well/mine", Owner("me"), TTL(time.Hour))
				mustLock(t, l, err)
				pass(2 * time.Second)
				asksSick(c, stuck)
				defer keeps(c, 300, renewsMine("a:/well"))()
				pass(100 * time.Millisecond)
				ctx, end := context.WithTimeout(t.Context(), 10*time.Minute)
				defer end()
				began := time.Now()
				err = c.Release(ctx, "else", []wire.ReleaseRequest{{Path: "a:/well/x"}}, false, "")
				took := time.Since(began)
				if err != nil || took > 20*time.Second {
					t.Errorf("a release of the log where all is well: %v after %v", err, took)
				}
			})
		})
	}
}

// TestRenewalsBesideStuckUsersStarveARepeat: likewise, and the release was sent, and nobody knows what became of it:
// it is asked again under its id.
func TestRenewalsBesideStuckUsersStarveARepeat(t *testing.T) {
	for _, stuck := range []int{0, 100, 225, 234, 238} {
		t.Run(fmt.Sprint(stuck), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.telling(WithGrace(longGrace), WithBacklog(4096))
				var once atomic.Bool
				go p.serve(func(a *asked) *wire.Result {
					switch {
					case a.req.Owner == "sick":
						time.AfterFunc(30*time.Second, func() { p.refuse(a, wire.Unavailable) })
						return nil
					case a.req.Owner == "else" && !once.Swap(true):
						time.AfterFunc(time.Second, func() { p.refuse(a, wire.DeadlineExceeded) })
						return nil
					}
					time.AfterFunc(100*time.Millisecond, func() { p.ok(a) })
					return nil
				})
				l, err := c.TryLock(t.Context(), "a:/well/mine", Owner("me"), TTL(time.Hour))
				mustLock(t, l, err)
				pass(2 * time.Second)
				asksSick(c, stuck)
				var took time.Duration
				go func() {
					began := time.Now()
					err := c.Release(t.Context(), "else", []wire.ReleaseRequest{{Path: "a:/well/x"}}, false, "")
					if took = time.Since(began); err != nil {
						t.Error(err)
					}
				}()
				pass(time.Millisecond)
				defer keeps(c, 300, renewsMine("a:/well"))()
				pass(45 * time.Second)
				if took == 0 || took > 10*time.Second {
					t.Errorf("a release of the log where all is well, asked again after 1 s: answered after %v", took)
				}
			})
		})
	}
}

// TestThreeRenewersBesideStuckUsersStarveTheRest: as TestRenewalsBesideStuckUsersStarveTheRest, with three goroutines
// that renew one after another, 300 renewals a second in all.
func TestThreeRenewersBesideStuckUsersStarveTheRest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling(WithGrace(longGrace), WithBacklog(4096))
		go p.serve(func(a *asked) *wire.Result {
			if a.req.Owner == "sick" {
				time.AfterFunc(30*time.Second, func() { p.refuse(a, wire.Unavailable) })
				return nil
			}
			time.AfterFunc(10*time.Millisecond, func() { p.ok(a) })
			return nil
		})
		l, err := c.TryLock(t.Context(), "a:/well/mine", Owner("me"), TTL(time.Hour))
		mustLock(t, l, err)
		pass(2 * time.Second)
		asksSick(c, 239)
		var stop atomic.Bool
		for range 3 {
			pass(3 * time.Millisecond)
			go func() {
				for !stop.Load() {
					if _, err := c.Renew(t.Context(), "me", 30*time.Minute, "", 0, "a:/well"); err != nil {
						return
					}
				}
			}()
		}
		pass(100 * time.Millisecond)
		began := time.Now()
		err = c.Release(t.Context(), "else", []wire.ReleaseRequest{{Path: "a:/well/x"}}, false, "")
		if took := time.Since(began); err != nil || took > 10*time.Second {
			t.Errorf("a release of the log where all is well: %v after %v", err, took)
		}
		stop.Store(true)
		pass(time.Minute)
	})
}
