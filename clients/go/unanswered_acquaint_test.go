package pathlockd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
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

// raisesMany has so many goroutines take a lock and then one path more, each in a name of its own, in some namespaces.
func raisesMany(ctx context.Context, c *Client, n, namespaces int) {
	for i := range n {
		go func() {
			owner, path := fmt.Sprintf("o%d", i), fmt.Sprintf("n%d:/v/o%d", i%namespaces, i)
			for ctx.Err() == nil {
				l, err := c.TryLock(ctx, path, Owner(owner), TTL(time.Hour))
				if err != nil {
					return
				}
				m, err := c.TryLockAll(ctx, []Path{{Path: path}, {Path: path + "too"}}, Owner(owner), TTL(time.Hour))
				if err != nil {
					return
				}
				_ = m.Unlock()
				_ = l.Unlock()
			}
		}()
	}
}

// TestAcquaintInManyLogs: many requests of the program raise tokens in ten logs. What the program lists has its turn,
// and so has a lock whose answer went with a connection.
func TestAcquaintInManyLogs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		var broke atomic.Bool
		s.takes(func(req *wire.Request) (time.Duration, bool) {
			if req.Op == wire.OpAcquire && req.Owner == "me" && broke.CompareAndSwap(false, true) {
				p := s.peer()
				time.AfterFunc(60*time.Millisecond, func() { p.Close() })
				return 100 * time.Millisecond, false
			}
			return 50 * time.Millisecond, false
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		raisesMany(ctx, c, 200, 10)
		pass(2 * time.Second)
		within, done := context.WithTimeout(t.Context(), 20*time.Second)
		defer done()
		if _, _, err := c.ListOwnerLocks(within, "o1", "n1:/"); err != nil {
			t.Errorf("ListOwnerLocks: %v", err)
		}
		_, err := c.TryLock(within, "n1:/me", Owner("me"), TTL(time.Hour))
		if err != nil || !broke.Load() {
			t.Errorf("TryLock: %v, connection lost: %v", err, broke.Load())
		}
	})
}

// TestAcquaintOfMany: many requests of the program raise tokens in a log, over a slow way. They do not hold up what
// keeps a lock there.
func TestAcquaintOfMany(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		s.takes(always(150*time.Millisecond, nil))
		both := []Path{{Path: "n0:/v/1"}, {Path: "n0:/v/2"}}
		kept, err := c.TryLockAll(t.Context(), both, Owner("me"), TTL(10*time.Second))
		mustLock(t, kept, err)
		pass(5 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		raisesMany(ctx, c, 400, 1)
		for range 120 {
			pass(time.Second)
			s.isHeld(kept)
		}
	})
}

// keepsMany takes two paths each for many owners, in so many logs, and lets a minute pass.
func keepsMany(t *testing.T, c *Client, owners, logs int) (kept []*Lock) {
	for i := range owners {
		p, owner := fmt.Sprintf("n%d:/k/%d", i%logs, i), fmt.Sprintf("k%d", i)
		l, err := c.TryLockAll(t.Context(), []Path{{Path: p}, {Path: p + "b"}}, Owner(owner), TTL(10*time.Second))
		mustLock(t, l, err)
		kept = append(kept, l)
	}
	pass(time.Minute)
	return kept
}

// TestAcquaintInTurn: what keeps many locks in ten logs takes nearly all places for listings. Requests of the program
// that raise tokens there have their turn, in each log, also while other logs do not answer, and cost none of the locks.
func TestAcquaintInTurn(t *testing.T) {
	for _, load := range []struct {
		stuck, owners int
		slow          time.Duration // what such questions take longer than all else
		least         int64         // of them in a minute and a share
		more          bool          // than locks can be kept at
	}{
		{0, 235, 0, 4, false}, {1, 205, 0, 4, false}, {2, 150, 0, 1, false}, {3, 150, 0, 1, false},
		{0, 200, 1500 * time.Millisecond, 1, false}, {0, 180, 3 * time.Second, 0, false},
		{1, 250, 0, 5, true},
	} {
		stuck := load.stuck
		t.Run(fmt.Sprintf("%d logs are stuck, %d locks, %v", stuck, load.owners, load.slow), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				const logs = 10
				c, s := newTimed(t)
				s.takes(always(150*time.Millisecond, nil))
				kept := keepsMany(t, c, load.owners, logs)
				shares := make(map[uint8]bool)
				for i := range logs {
					shares[c.shareOf(fmt.Sprintf("n%d:/k", i))], shares[c.shareOf(fmt.Sprintf("n%d:/v", i))] = true, true
				}
				var ill []string
				for i := 0; len(ill) < stuck; i++ {
					owner := fmt.Sprintf("ill%d", i)
					if share := c.shareOf(owner + ":/x"); !shares[share] {
						shares[share] = true
						ill = append(ill, owner)
						l, err := c.TryLock(t.Context(), owner+":/x/1", Owner(owner), TTL(time.Hour))
						mustLock(t, l, err)
					}
				}
				var asked [maxShares]atomic.Int64 // of the share; two of the logs have one
				s.takes(func(req *wire.Request) (time.Duration, bool) {
					if strings.HasPrefix(req.Owner, "ill") {
						return 30 * time.Second, false
					}
					takes := 150*time.Millisecond + rand.N(20*time.Millisecond)
					if req.Op == wire.OpListLocks && req.Owner[0] == 'o' {
						asked[c.shareOf(req.Domains[0])].Add(1)
						takes += load.slow
					}
					return takes, false
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for i := range 3 * stuck {
					owner := ill[i%stuck]
					go func() {
						for ctx.Err() == nil {
							one, done := context.WithTimeout(ctx, time.Duration(5+15*(i/stuck))*time.Second)
							both := []Path{{Path: owner + ":/x/1"}, {Path: owner + ":/x/2"}}
							_, _ = c.TryLockAll(one, both, Owner(owner), TTL(time.Hour))
							done()
						}
					}()
				}
				pass(time.Second)
				raisesMany(ctx, c, 40, logs)
				for minute := range 3 {
					pass(time.Minute)
					for i := range logs {
						if n := asked[c.shareOf(fmt.Sprintf("n%d:/v", i))].Load(); n < load.least {
							t.Errorf("in minute %d: %d in log %d", minute, n, i)
						}
					}
					for i := range asked {
						asked[i].Store(0)
					}
				}
				for i := range logs {
					owner := fmt.Sprintf("me%d", i)
					p := fmt.Sprintf("n%d:/%s", i, owner)
					l, err := c.TryLock(t.Context(), p, Owner(owner), TTL(time.Hour))
					mustLock(t, l, err)
					takesOneMore(t, c, p, owner, 5*time.Minute)
				}
				if load.more {
					return
				}
				for _, l := range kept {
					s.isHeld(l)
				}
			})
		})
	}
}

// TestAcquaintBesideAFullShare: a log does not answer, and its locks' renewals have all that they may have of the
// window, so that a look there has no room in it, nor a question before a token is raised. Another log, for whose
// questions all places are free, is none the worse.
func TestAcquaintBesideAFullShare(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		s.takes(always(time.Millisecond, nil))
		sick := c.shareOf("sick:/k")
		if sick == c.shareOf("a:/b") {
			t.Fatal("one share: this shows nothing")
		}
		l, err := c.TryLockAll(t.Context(), []Path{{Path: "sick:/k/1"}, {Path: "sick:/k/2"}}, Owner("two"), TTL(time.Minute))
		mustLock(t, l, err)
		pass(14 * time.Second) // so that it is looked at after the others are renewed
		for i := range 300 {
			owner := fmt.Sprintf("k%d", i)
			l, err := c.TryLock(t.Context(), "sick:/k/"+owner, Owner(owner), TTL(time.Minute))
			mustLock(t, l, err)
		}
		ill, err := c.TryLock(t.Context(), "sick:/k/ill", Owner("ill"), TTL(time.Hour))
		mustLock(t, ill, err)
		s.takes(func(req *wire.Request) (time.Duration, bool) {
			if req.Owner == "me" {
				return time.Millisecond, false
			}
			return 30 * time.Second, false
		})
		waits := func() bool {
			se := &c.home.session
			se.mu.Lock()
			defer se.mu.Unlock()
			return se.mu.shares[sick].waits[listing].first != nil
		}
		for range 60 {
			if pass(time.Second); waits() {
				break
			}
		}
		if !waits() {
			t.Fatal("no look waits: this shows nothing")
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			_, _ = c.TryLockAll(ctx, []Path{{Path: "sick:/k/ill"}, {Path: "sick:/k/ill2"}}, Owner("ill"), TTL(time.Hour))
		}()
		pass(100 * time.Millisecond)
		me, err := c.TryLock(t.Context(), "a:/b/c", Owner("me"), TTL(time.Hour))
		mustLock(t, me, err)
		takesOneMore(t, c, "a:/b/c", "me", time.Second)
	})
}

// TestAcquaintBesideStuckLooks: a log does not answer, neither looks at what is held there, some of which wait for
// places, nor two questions before tokens are raised. Another log, with which all is well, is asked at once.
func TestAcquaintBesideStuckLooks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		s.takes(always(time.Millisecond, nil))
		sick := c.shareOf("sick:/k")
		if sick == c.shareOf("a:/b") {
			t.Fatal("one share: this shows nothing")
		}
		for i := range 24 {
			p := fmt.Sprintf("sick:/k/%d", i)
			both := []Path{{Path: p}, {Path: p + "b"}}
			l, err := c.TryLockAll(t.Context(), both, Owner(fmt.Sprintf("k%d", i)), TTL(30*time.Second))
			mustLock(t, l, err)
			pass(1300 * time.Millisecond)
		}
		pass(time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range 2 {
			p, owner := fmt.Sprintf("sick:/k/x%d", i), fmt.Sprintf("ill%d", i)
			l, err := c.TryLock(t.Context(), p, Owner(owner), TTL(time.Hour))
			mustLock(t, l, err)
			time.AfterFunc(time.Second, func() {
				_, _ = c.TryLockAll(ctx, []Path{{Path: p}, {Path: p + "too"}}, Owner(owner), TTL(time.Hour))
			})
		}
		s.takes(func(req *wire.Request) (time.Duration, bool) {
			if req.Owner == "me" || req.Op == wire.OpPing {
				return time.Millisecond, false
			}
			return 30 * time.Second, false
		})
		waits := func() bool {
			se := &c.home.session
			se.mu.Lock()
			defer se.mu.Unlock()
			return se.mu.shares[sick].raises == 2 && se.mu.shares[sick].waits[listing].first != nil
		}
		for range 280 {
			if pass(100 * time.Millisecond); waits() {
				break
			}
		}
		if !waits() {
			t.Fatal("no look waits beside two questions: this shows nothing")
		}
		me, err := c.TryLock(t.Context(), "a:/b/c", Owner("me"), TTL(time.Hour))
		mustLock(t, me, err)
		takesOneMore(t, c, "a:/b/c", "me", time.Second)
	})
}

// TestAcquaintBesideTwoStuckLogs: two logs do not answer, neither looks at what is held there nor questions before
// tokens are raised, which the program asks again and again. Other logs' questions are not kept back for long.
func TestAcquaintBesideTwoStuckLogs(t *testing.T) {
	for _, asks := range []int{2, 4, 8} {
		t.Run(fmt.Sprint(asks, " ask in each"), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newTimed(t)
				s.takes(always(time.Millisecond, nil))
				take := func(p, owner string) {
					both := []Path{{Path: p}, {Path: p + "b"}}
					l, err := c.TryLockAll(t.Context(), both, Owner(owner), TTL(30*time.Second))
					mustLock(t, l, err)
				}
				for i := range 24 {
					take(fmt.Sprintf("sick:/k/%d", i), fmt.Sprintf("k%d", i))
					take(fmt.Sprintf("bad:/k/%d", i), fmt.Sprintf("l%d", i))
					pass(1300 * time.Millisecond)
				}
				pass(time.Minute)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for i := range 2 * asks {
					p, owner := fmt.Sprintf("%s:/k/x%d", []string{"sick", "bad"}[i%2], i), fmt.Sprintf("ill%d", i)
					l, err := c.TryLock(t.Context(), p, Owner(owner), TTL(time.Hour))
					mustLock(t, l, err)
					within := time.Duration(5+rand.N(35)) * time.Second
					go func() {
						for pauseFor(ctx, time.Second); ctx.Err() == nil; {
							one, done := context.WithTimeout(ctx, within)
							_, _ = c.TryLockAll(one, []Path{{Path: p}, {Path: p + "too"}}, Owner(owner), TTL(time.Hour))
							done()
						}
					}()
				}
				s.takes(func(req *wire.Request) (time.Duration, bool) {
					if strings.HasPrefix(req.Owner, "me") || req.Op == wire.OpPing {
						return time.Millisecond, false
					}
					return 30 * time.Second, false
				})
				for i := range 240 {
					p, owner := fmt.Sprintf("a:/b/c%d", i), fmt.Sprintf("me%d", i)
					l, err := c.TryLock(t.Context(), p, Owner(owner), TTL(time.Hour))
					mustLock(t, l, err)
					takesOneMore(t, c, p, owner, 11*time.Second)
					_ = l.Unlock()
					pass(time.Second)
				}
			})
		})
	}
}

// TestAcquaintBesideManyLooks: what keeps 180 locks in ten logs takes nearly all places for listings, on a slow way.
// Requests of the program that raise tokens there cost none of them.
func TestAcquaintBesideManyLooks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const logs = 10
		c, s := newTimed(t)
		s.takes(always(150*time.Millisecond, nil))
		kept := keepsMany(t, c, 180, logs)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, raising := range []int{0, 40, 260} {
			raisesMany(ctx, c, raising, logs)
			for range 30 {
				pass(time.Second)
				for _, l := range kept {
					if s.isHeld(l); t.Failed() {
						t.Fatalf("with %d that raise tokens", raising)
					}
				}
			}
		}
	})
}
