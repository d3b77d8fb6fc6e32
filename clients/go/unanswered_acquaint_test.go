package pathlockd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAcquaintIsNotWaitedForLong: one question of the client itself, before a request that raises a token, is never
// answered; all else is.
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
					s.takes(always(time.Millisecond,
						map[wire.Op]time.Duration{wire.OpDescribe: leastUnanswered + 30*time.Second}))
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
					t.Errorf("a server with too much to do was asked %d times in %v, want %d at most", asked,
						4*leastUnanswered, most)
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

// TestAcquaintOverABreak: the connection breaks while the question is under way, and there is no way to the server for
// longer than a question may have no answer. The request waits as long, and the question is not gone without.
func TestAcquaintOverABreak(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		dial := f.dial
		var until atomic.Int64
		f.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if time.Now().UnixNano() < until.Load() {
				return nil, errUnreachable
			}
			return dial(ctx, network, addr)
		}
		c, s := newTimedAt(t, f)
		go s.again(f)
		raises(t, c, s, []Path{{Path: "a:/b/c"}}, func() {
			s.takes(func(req *wire.Request) (time.Duration, bool) {
				if req.Op == wire.OpListLocks {
					until.Store(time.Now().Add(leastUnanswered + 30*time.Second).UnixNano())
					s.takes(always(time.Millisecond, nil))
					p := s.peer()
					time.AfterFunc(time.Millisecond, func() { p.Close() })
					return 5 * time.Millisecond, false
				}
				return time.Millisecond, false
			})
		})
	})
}

// TestAcquaintRefusedThenWaits: the question is refused once, and waits for its turn for longer than it may have no
// answer after that.
func TestAcquaintRefusedThenWaits(t *testing.T) {
	const slow = leastUnanswered + 30*time.Second
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t, WithWindow(4))
		raises(t, c, s, []Path{{Path: "a:/b/c"}}, func() {
			s.takes(always(time.Millisecond, map[wire.Op]time.Duration{wire.OpDescribe: slow}))
			first, began := true, time.Now()
			s.refuses(func(req *wire.Request) bool {
				if req.Op != wire.OpListLocks || time.Since(began) > slow+5*time.Second {
					return false
				}
				if first {
					first = false
					for range 3 {
						go func() { _, _ = c.Describe(context.Background(), "a:/b/e", 0) }()
					}
				}
				return true
			})
		})
	})
}

// TestAcquaintBehindListings: the program's listings of a log without a leader, forty at a time, do not hold up who
// takes one path more in another log.
func TestAcquaintBehindListings(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		s.takes(func(req *wire.Request) (time.Duration, bool) {
			if req.Op == wire.OpListLocks && req.Owner == "sick" {
				return 30 * time.Second, false
			}
			return time.Millisecond, false
		})
		for i := range 40 {
			go func() {
				for {
					if _, _, err := c.ListOwnerLocks(t.Context(), "sick", fmt.Sprintf("b:/%d", i)); err != nil {
						return
					}
				}
			}()
		}
		pass(time.Second)
		l, err := c.TryLock(t.Context(), "a:/b/c", Owner("me"), TTL(time.Hour))
		mustLock(t, l, err)
		takesOneMore(t, c, "a:/b/c", "me", time.Second)
	})
}

// takesOneMore asks for a path that an owner has and another one, for no longer than so long.
func takesOneMore(t *testing.T, c *Client, path, owner string, within time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	began := time.Now()
	l, err := c.TryLockAll(ctx, []Path{{Path: path}, {Path: path + "too"}}, Owner(owner), TTL(time.Hour))
	if err != nil {
		t.Errorf("%s: after %v: %v", owner, time.Since(began), err)
		return
	}
	must(t, l.Unlock())
}

// TestAcquaintHungOften: of several owners the first question is never answered, all else is. The next owner's is not
// behind those.
func TestAcquaintHungOften(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		var hung sync.Map // by owner; connections are served by goroutines of their own
		s.takes(func(req *wire.Request) (time.Duration, bool) {
			if req.Op == wire.OpListLocks {
				if _, was := hung.LoadOrStore(strings.Clone(req.Owner), true); !was {
					return 1000 * time.Hour, false
				}
			}
			return time.Millisecond, false
		})
		for i := range 8 {
			owner, path := fmt.Sprintf("me%d", i), fmt.Sprintf("a:/b/c%d", i)
			l, err := c.TryLock(t.Context(), path, Owner(owner), TTL(time.Hour))
			mustLock(t, l, err)
			takesOneMore(t, c, path, owner, 3*leastUnanswered) // the sixth: places are free with the next connection
		}
	})
}

// TestAcquaintBesideAStuckLog: a log has no leader, what is asked of it is refused after a while. The program tries to
// take a path there together with one that it has, for 5 s each time. Who does so in another log is not held up.
func TestAcquaintBesideAStuckLog(t *testing.T) {
	for by, stuck := range map[int]time.Duration{4: 30 * time.Second, 1: 2 * time.Minute} {
		t.Run(fmt.Sprintf("%d by %v", by, stuck), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newTimed(t, WithKeepAlive(5*time.Second))
				s.takes(always(time.Millisecond, nil))
				sick, err := c.TryLock(t.Context(), "b:/s/c", Owner("sick"), TTL(time.Hour))
				mustLock(t, sick, err)
				s.takes(func(req *wire.Request) (time.Duration, bool) {
					if req.Owner == "sick" {
						return stuck, false
					}
					return time.Millisecond, false
				})
				for range by {
					go func() {
						for t.Context().Err() == nil {
							ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
							both := []Path{{Path: "b:/s/c"}, {Path: "b:/s/d"}}
							_, _ = c.TryLockAll(ctx, both, Owner("sick"), TTL(time.Hour))
							cancel()
						}
					}()
				}
				pass(30 * time.Second)
				for range 20 {
					l, err := c.TryLock(t.Context(), "a:/b/c", Owner("me"), TTL(time.Hour))
					mustLock(t, l, err)
					takesOneMore(t, c, "a:/b/c", "me", time.Second)
					_ = l.Unlock()
					pass(time.Second)
				}
			})
		})
	}
}

// TestAcquaintRefused: a server refuses listings with RESOURCE_EXHAUSTED, also those of one entry, and takes all else.
// The request that would raise a token is refused as well, soon, and no lock is lost.
func TestAcquaintRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		s.takes(always(time.Millisecond, nil))
		l, err := c.TryLock(t.Context(), "a:/b/c", Owner("me"), TTL(time.Hour))
		mustLock(t, l, err)
		s.busyWith = wire.ResourceExhausted
		s.refuses(func(req *wire.Request) bool { return req.Op == wire.OpListLocks })
		both := []Path{{Path: "a:/b/c"}, {Path: "a:/b/d"}}
		began := time.Now()
		_, err = c.LockAll(t.Context(), both, Owner("me"), TTL(time.Hour))
		if codeOf(err) != wire.ResourceExhausted || time.Since(began) > 10*time.Second {
			t.Errorf("LockAll: %v after %v", err, time.Since(began))
		}
		locks := make([]wire.LockRequest, len(both))
		for i, p := range both {
			locks[i] = wire.LockRequest{Path: p.Path, Mode: wire.ModeWrite}
		}
		_, err = c.Do(t.Context(), &wire.Request{Op: wire.OpAcquire, Owner: "me", TTLMillis: 60_000, Locks: locks})
		if codeOf(err) != wire.ResourceExhausted {
			t.Errorf("Do: %v", err)
		}
		s.refuses(nil)
		again, err := c.LockAll(t.Context(), both, Owner("me"), TTL(time.Hour))
		mustLock(t, again, err)
		pass(2 * time.Hour)
		s.isHeld(l)
		s.isHeld(again)
	})
}

// TestAcquaintWithACause: the caller's context ends with another one's refusal as its cause, as in an errgroup.
func TestAcquaintWithACause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		l, err := c.TryLock(t.Context(), "a:/b/c", Owner("me"), TTL(time.Hour))
		mustLock(t, l, err)
		s.takes(always(time.Millisecond, map[wire.Op]time.Duration{wire.OpListLocks: time.Second}))
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := wire.Errorf(wire.ResourceExhausted, "full")
		time.AfterFunc(100*time.Millisecond, func() { cancel(cause) })
		began := time.Now()
		_, err = c.TryLockAll(ctx, []Path{{Path: "a:/b/c"}, {Path: "a:/b/d"}}, Owner("me"), TTL(time.Hour))
		if !errors.Is(err, cause) || time.Since(began) != 100*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
