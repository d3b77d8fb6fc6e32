package pathlockd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

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
		kept := takesTwo(t, c, "n0:/v/1", "me", 10*time.Second)
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

// takesTwo takes a path and another one for an owner, in one lock.
func takesTwo(t *testing.T, c *Client, path, owner string, ttl time.Duration) *Lock {
	t.Helper()
	l, err := c.TryLockAll(t.Context(), []Path{{Path: path}, {Path: path + "b"}}, Owner(owner), TTL(ttl))
	mustLock(t, l, err)
	return l
}

// keepsMany takes two paths each for many owners, in so many logs, and lets a minute pass.
func keepsMany(t *testing.T, c *Client, owners, logs int) (kept []*Lock) {
	for i := range owners {
		p, owner := fmt.Sprintf("n%d:/k/%d-%d", i%logs, i, logs), fmt.Sprintf("k%d-%d", i, logs)
		kept = append(kept, takesTwo(t, c, p, owner, 10*time.Second))
	}
	pass(time.Minute)
	return kept
}

// TestAcquaintInTurn: a program keeps many locks in ten logs on a way of 150 ms, and has requests that raise tokens
// there all the time. Those have their turns in each log, also while others do not answer and the program asks there
// without end, and cost none of the locks.
func TestAcquaintInTurn(t *testing.T) {
	for _, load := range []struct {
		stuck, owners int
		big           int           // more of them, in one of the logs
		slow          time.Duration // what such questions take longer than all else
		least         int64         // of them in a minute and a share
	}{
		{0, 800, 0, 0, 200}, {1, 250, 0, 0, 200}, {8, 120, 0, 0, 200}, {40, 200, 0, 0, 200},
		{0, 65, 300, 0, 200}, {0, 200, 0, 1500 * time.Millisecond, 70}, {0, 180, 0, 3 * time.Second, 40},
	} {
		stuck := load.stuck
		t.Run(fmt.Sprintf("%d logs are stuck, %d and %d locks, %v", stuck, load.owners, load.big, load.slow),
			func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					const logs = 10
					c, s := newTimed(t)
					s.takes(always(150*time.Millisecond, nil))
					kept := append(keepsMany(t, c, load.owners, logs), keepsMany(t, c, load.big, 1)...)
					shares := make(map[uint8]bool)
					for i := range logs {
						shares[c.shareOf(fmt.Sprintf("n%d:/k", i))], shares[c.shareOf(fmt.Sprintf("n%d:/v", i))] = true,
							true
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
					for minute := range 2 {
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
					for _, l := range kept {
						s.isHeld(l)
					}
				})
			})
	}
}

// aLookWaits lets time pass, a minute at most, until a look of a share waits for its room, beside so many questions
// before tokens are raised that are under way there.
func aLookWaits(t *testing.T, c *Client, share uint8, raises int) {
	t.Helper()
	se := &c.home.session
	for range 600 {
		pass(100 * time.Millisecond)
		se.mu.Lock()
		sh := &se.mu.shares[share]
		waits := sh.raises == raises && sh.waits[listing].first != nil
		se.mu.Unlock()
		if waits {
			return
		}
	}
	t.Fatalf("no look waits beside %d questions: this shows nothing", raises)
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
		takesTwo(t, c, "sick:/k/1", "two", time.Minute)
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
		aLookWaits(t, c, sick, 0)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			_, _ = c.TryLockAll(ctx, []Path{{Path: "sick:/k/ill"}, {Path: "sick:/k/ill2"}}, Owner("ill"),
				TTL(time.Hour))
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
		for i := range 60 {
			takesTwo(t, c, fmt.Sprintf("sick:/k/%d", i), fmt.Sprintf("k%d", i), 30*time.Second)
			pass(500 * time.Millisecond)
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
		aLookWaits(t, c, sick, 2)
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
				for i := range 24 {
					takesTwo(t, c, fmt.Sprintf("sick:/k/%d", i), fmt.Sprintf("k%d", i), 30*time.Second)
					takesTwo(t, c, fmt.Sprintf("bad:/k/%d", i), fmt.Sprintf("l%d", i), 30*time.Second)
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

// TestAcquaintBesideManyLooks: a program keeps 180 locks in ten logs, on a slow way. Requests of it that raise tokens
// there, very many at once, cost none of them.
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
