package pathlockd

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAcquaintIsNotWaitedForLong: one question of the client itself, before a request that raises a token, is never answered; all else is.
func TestAcquaintIsNotWaitedForLong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		s.takes(always(time.Millisecond, nil))
		hung := 0
		s.takes(func(req *wire.Request) (time.Duration, bool) {
			if req.Op == wire.OpListLocks && hung < 1 {
				hung++
				return 1000 * time.Hour, false
			}
			return time.Millisecond, false
		})
		l, err := c.TryLock(t.Context(), "a:/b/c", Owner("me"), TTL(time.Hour))
		mustLock(t, l, err)
		done := make(chan error, 1)
		go func() {
			_, err := c.LockAll(t.Context(), []Path{{Path: "a:/b/c"}, {Path: "a:/b/d"}}, Owner("me"), TTL(time.Hour))
			done <- err
		}()
		pass(time.Hour)
		select {
		case err := <-done:
			if err != nil || hung == 0 {
				t.Errorf("LockAll is answered %v; %d questions were not", err, hung)
			}
		default:
			t.Errorf("a LockAll has had no answer for an hour; connections %d", c.connections.Load())
		}
	})
}
