package pathlockd

import (
	"context"
	"fmt"
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

// raises takes a lock, asks for its path and another one in the name of its owner, which raises its token, and fails
// if the first lock is lost after that.
func raises(t *testing.T, c *Client, s *timed, first []Path, slow func()) {
	t.Helper()
	l, err := c.TryLockAll(t.Context(), first, Owner("me"), TTL(time.Hour))
	mustLock(t, l, err)
	slow()
	again, err := c.LockAll(t.Context(), []Path{first[0], {Path: "a:/b/d"}}, Owner("me"), TTL(time.Hour))
	mustLock(t, again, err)
	s.takes(always(time.Millisecond, nil))
	pass(2 * time.Hour)
	s.isHeld(l)
	s.isHeld(again)
}

// TestAcquaintForLong: the question before a request that raises a token is refused for longer than it may have no
// answer, as a server does that has too much to do; or it waits so long for its turn, as what the program asks takes
// the whole window, and what the client asks by itself is refused. It is not gone without.
func TestAcquaintForLong(t *testing.T) {
	for _, requests := range []int{0, 9} {
		t.Run(fmt.Sprint(requests), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newTimed(t, WithWindow(4))
				asked := 0
				raises(t, c, s, []Path{{Path: "a:/b/c"}}, func() {
					s.takes(always(time.Millisecond, map[wire.Op]time.Duration{wire.OpDescribe: leastUnanswered + 30*time.Second}))
					began := c.now()
					s.refuses(func(req *wire.Request) bool {
						refused := req.Op == wire.OpListLocks && c.now()-began < 4*leastUnanswered
						if refused {
							asked++
						}
						return refused
					})
					for range requests {
						go func() {
							if _, err := c.Describe(context.Background(), "a:/b/e", 0); err != nil {
								t.Error(err)
							}
						}()
					}
					pass(100 * time.Millisecond)
				})
				if most := int(4 * leastUnanswered / (maxRenewRetry / 8)); asked > most {
					t.Errorf("a server with too much to do was asked %d times in %v, want %d at most", asked, 4*leastUnanswered, most)
				}
			})
		})
	}
}

// TestAcquaintedByTheFirstPage: what an owner holds is told in two pages, the second one never. What the first one
// told counts.
func TestAcquaintedByTheFirstPage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		many := manyBefore(t, c, 600)
		raises(t, c, s, []Path{{Path: "a:/a"}}, func() {
			s.takes(func(req *wire.Request) (time.Duration, bool) {
				if req.Op == wire.OpListLocks && len(req.Cursor) > 0 {
					return 24 * time.Hour, false
				}
				return time.Millisecond, false
			})
		})
		s.isHeld(many)
	})
}
