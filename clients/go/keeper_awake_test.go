package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAFirstLockWhileTheKeeperLooks: the first lock of a client comes while its keeper looks around, for another
// reason: when it has seen to the connection, which needs signs of life every third of the grace now, and not yet to
// the leases.
func TestAFirstLockWhileTheKeeperLooks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, p := newFake(t).client(WithGrace(time.Second))
		go func() {
			for {
				a, err := p.read()
				if err != nil {
					return
				}
				if a.req.Op == wire.OpAcquire {
					go c.keeper.nudge()
				}
				p.reply(a.id, a.req.Op, granted(a.req))
			}
		}()
		p.SetReadDeadline(time.Time{})
		for range 1000 {
			l, err := c.Lock(context.Background(), "a:/b/c")
			mustLock(t, l, err)
			pass(2 * time.Second)
			must(t, l.Err())
			must(t, l.Unlock())
		}
	})
}

// TestANudgeWhileTheKeeperLooks: what the keeper is told of while it looks around, it may have looked at before. It
// looks again at once, also when it keeps many leases of which none is due.
func TestANudgeWhileTheKeeperLooks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		s.takes(always(0, nil))
		for _, p := range []string{"a:/b/c", "d:/e/f"} {
			l, err := c.TryLock(t.Context(), p, TTL(time.Hour))
			mustLock(t, l, err)
		}
		k := &c.keeper
		if k.work(); k.work() <= c.now() {
			t.Fatal("something is due: this shows nothing")
		}
		k.wakes()
		k.nudge()
		if next := k.work(); next > c.now() {
			t.Errorf("it looks again in %v", next-c.now())
		}
	})
}
