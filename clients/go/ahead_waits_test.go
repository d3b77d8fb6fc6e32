package pathlockd

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAheadGoesAsSoonAsThereIsRoom: users' requests to a log that does not answer fill their part of the window. The
// program renews more leases of a healthy log at once than the reserve has room for: the others go as soon as those are
// answered, and not behind all that waits for the stuck log.
func TestAheadGoesAsSoonAsThereIsRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling(WithGrace(longGrace), WithKeepAlive(time.Hour))
		go p.serve(func(a *asked) *wire.Result {
			if a.req.Owner == "sick" {
				time.AfterFunc(30*time.Second, func() { p.refuse(a, wire.DeadlineExceeded) })
				return nil
			}
			time.AfterFunc(5*time.Millisecond, func() { p.ok(a) })
			return nil
		})
		const n = 12
		var locks [n]*Lock
		for i := range locks {
			l, err := c.TryLock(t.Context(), fmt.Sprintf("a:/well/%d", i), Owner(fmt.Sprintf("o%d", i)),
				TTL(20*time.Second))
			mustLock(t, l, err)
			locks[i] = l
		}
		pass(time.Second)
		for range 2000 {
			c.Go(&wire.Request{Op: wire.OpRelease, Owner: "sick", Releases: []wire.ReleaseRequest{{Path: "a:/sick/x"}}},
				nil)
		}
		pass(time.Second)
		var worst atomic.Int64
		var answered atomic.Int64
		for i := range locks {
			began := time.Now()
			go func() {
				_, err := c.Renew(t.Context(), fmt.Sprintf("o%d", i), 20*time.Second, "", 0, "a:/well")
				if err != nil {
					t.Error(err)
				}
				answered.Add(1)
				worst.Store(max(worst.Load(), int64(time.Since(began))))
			}()
		}
		pass(5 * time.Second)
		t.Logf("after 5 s %d of %d are answered", answered.Load(), n)
		pass(10 * time.Minute)
		if got := time.Duration(worst.Load()); got > 5*time.Second {
			t.Errorf("a renewal of a log where all is well, of %d at once, was answered after %v", n, got)
		}
		for i, l := range locks {
			if err := l.Err(); err != nil {
				t.Errorf("lock %d, with nothing wrong with its log: %v", i, err)
			}
		}
	})
}
