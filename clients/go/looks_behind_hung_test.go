package pathlockd

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// looksBehindHung: one log has no leader: what is listed of it is answered after 30 seconds that it is not available. A
// lock is of another log, where all is well and all is answered at once.
func looksBehindHung(t *testing.T, sick func(ctx context.Context, c *Client, gone func()),
	then func(c *Client) []*Lock) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		if !s.rival("a:/b/theirs") {
			t.Fatal("this shows nothing")
		}
		l := hours(t, c, "a:/b/c")
		pass(time.Minute)
		s.isHeld(l)
		sick(ctx, c, func() {
			s.takes(func(req *wire.Request) (time.Duration, bool) {
				if strings.HasPrefix(req.Owner, "sick") && req.Op != wire.OpSubscribe {
					return 30 * time.Second, false
				}
				return 0, false
			})
		})
		pass(time.Second)
		all := append(then(c), l)
		pass(8 * time.Second)
		for _, l := range all {
			s.isHeld(l)
		}
		stop()
		pass(2 * time.Minute)
	})
}

func atRisk(t *testing.T) func(c *Client) []*Lock {
	return func(c *Client) []*Lock {
		asksFor(t, c, &wire.Request{
			Owner: "me", TTLMillis: 60_000, Flags: wire.FlagNoQueue,
			Locks: []wire.LockRequest{{Path: "a:/b/theirs"}}, Releases: []wire.ReleaseRequest{{Path: "a:/b/c"}},
		}, wire.StatusConflict)
		return nil
	}
}

func anotherOfMine(t *testing.T) func(c *Client) []*Lock {
	return func(c *Client) []*Lock {
		l, err := c.Lock(context.Background(), "a:/b/d", Owner("me"), TTL(5*time.Second))
		return []*Lock{mustLock(t, l, err)}
	}
}

// programs lists of the sick log.
func programs(n int) func(ctx context.Context, c *Client, gone func()) {
	return func(ctx context.Context, c *Client, gone func()) {
		gone()
		for i := range n {
			go func() { _, _, _ = c.ListOwnerLocks(ctx, fmt.Sprint("sick", i), "a:/s") }()
		}
	}
}

// keepers has locks there, which the keeper asks about.
func keepers(t *testing.T, n int) func(ctx context.Context, c *Client, gone func()) {
	return func(ctx context.Context, c *Client, gone func()) {
		for i := range n {
			for j := range 2 {
				l, err := c.Lock(ctx, fmt.Sprintf("a:/s/%d/%d", i, j), Owner(fmt.Sprint("sick", i)), TTL(time.Hour))
				mustLock(t, l, err)
				if j == 0 {
					pass(time.Second)
				}
			}
		}
		pass(time.Minute)
		gone()
		for i := range n {
			c.Go(&wire.Request{Op: wire.OpRelease, Owner: fmt.Sprint("sick", i),
				Releases: []wire.ReleaseRequest{{Path: fmt.Sprintf("a:/s/%d/1", i)}}}, nil)
		}
	}
}

func TestAtRiskBehindHungListings(t *testing.T) { looksBehindHung(t, programs(8), atRisk(t)) }
func TestAtRiskBehindFewHung(t *testing.T)      { looksBehindHung(t, programs(7), atRisk(t)) }
func TestSecondLockBehindHungListings(t *testing.T) {
	looksBehindHung(t, programs(8), anotherOfMine(t))
}
func TestAtRiskBehindHungLooks(t *testing.T)     { looksBehindHung(t, keepers(t, 8), atRisk(t)) }
func TestSecondLockBehindHungLooks(t *testing.T) { looksBehindHung(t, keepers(t, 8), anotherOfMine(t)) }
func TestSecondLockBehindFewHungLooks(t *testing.T) {
	looksBehindHung(t, keepers(t, 7), anotherOfMine(t))
}
