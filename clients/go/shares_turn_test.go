package pathlockd

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// farAway is a server that answers each request after 100 ms, but for those of the owner "sick", whose log has no
// leader.
func farAway(t *testing.T) *Client {
	f := newFake(t)
	c, p := f.telling(WithGrace(longGrace), WithBacklog(4096))
	go p.serve(func(a *asked) *wire.Result {
		if a.req.Owner == "sick" {
			time.AfterFunc(30*time.Second, func() { p.refuse(a, wire.Unavailable) })
			return nil
		}
		time.AfterFunc(100*time.Millisecond, func() {
			if len(a.req.Locks) == 1 && a.req.Locks[0].Path == "a:/b/theirs" {
				p.reply(a.id, a.req.Op, &wire.Result{
					Status: wire.StatusConflict, Path: "a:/b/theirs", Owner: "they", Reason: wire.ReasonWriteLocked,
				})
				return
			}
			p.ok(a)
		})
		return nil
	})
	return c
}

// inShares names a namespace of each of the first shares.
func inShares(c *Client, n int) (names []string) {
	for i := 0; len(names) < n; i++ {
		if ns := fmt.Sprint("a:/n", i); int(c.shareOf(ns)) == len(names)+1 {
			names = append(names, ns)
		}
	}
	return names
}

// lockAll takes n locks at once, of paths and with options by their numbers; nil for what is not answered before ctx
// ends.
func lockAll(ctx context.Context, c *Client, n int, path func(i int) string, opts func(i int) []LockOption) []*Lock {
	locks := make([]*Lock, n)
	var all sync.WaitGroup
	for i := range locks {
		all.Go(func() {
			if l, err := c.TryLock(ctx, path(i), opts(i)...); err == nil {
				locks[i] = l
			}
		})
	}
	all.Wait()
	return locks
}

// lasting are options of a lock.
func lasting(ttl time.Duration) func(int) []LockOption {
	return func(int) []LockOption { return []LockOption{TTL(ttl)} }
}

// ofOneLog are paths of one log.
func ofOneLog(i int) string { return fmt.Sprint("a:/b/", i) }

// upTo names those below n, and the rest.
func upTo(n int, those, rest string) func(int) string {
	return func(i int) string {
		if i < n {
			return those
		}
		return rest
	}
}

// lostOf counts locks that are lost, or were not taken, by what they are of.
func lostOf(locks []*Lock, of func(i int) string) map[string]int {
	lost := make(map[string]int)
	for i, l := range locks {
		if l == nil || l.Err() != nil {
			lost[of(i)]++
		}
	}
	return lost
}

// TestSharesInTurn: users' requests to a log without a leader fill what they may have of the window. A program holds
// locks of other logs, so many that what is left of it renews all of them in time: no log's renewals starve those of
// another.
func TestSharesInTurn(t *testing.T) {
	for _, one := range [][2]int{{1, 2400}, {2, 2000}, {2, 2400}, {4, 2400}, {8, 2400}} {
		logs, n := one[0], one[1]
		t.Run(fmt.Sprint(logs, " logs, ", n, " locks"), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := farAway(t)
				spaces := inShares(c, logs)
				of := func(i int) string { return spaces[i%logs] }
				path := func(i int) string { return fmt.Sprint(of(i), "/", i) }
				locks := lockAll(t.Context(), c, n, path, lasting(30*time.Second))
				end := keeps(c, 600, releaseOf("sick", "a:/sick/y"))
				pass(2 * time.Minute)
				if lost := lostOf(locks, of); len(lost) > 0 {
					t.Errorf("of %d in each are lost: %v", n/logs, lost)
				}
				end()
			})
		})
	}
}

// TestLooksBesideRenewals: a program holds so many locks of one log that their renewals always wait for room, and
// none is late. Some are of owners that it names, more than are watched: a look is asked with each of their renewals,
// which counts when both are answered. The renewals of the others do not starve the looks; beside stuck users
// neither.
func TestLooksBesideRenewals(t *testing.T) {
	for _, one := range [][4]int{{8000, 200, 0, 12}, {1500, 200, 600, 30}, {2200, 200, 600, 30}} {
		alone, named, sick, ttl := one[0], one[1], one[2], time.Duration(one[3])*time.Second
		t.Run(fmt.Sprintf("%d, %d of named owners, %d stuck, for %v", alone, named, sick, ttl), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := farAway(t)
				locks := lockAll(t.Context(), c, alone+named, ofOneLog, func(i int) []LockOption {
					if i < alone {
						return []LockOption{TTL(ttl)}
					}
					return []LockOption{TTL(ttl), Owner(fmt.Sprint("owner", i))}
				})
				end := keeps(c, sick, releaseOf("sick", "a:/sick/y"))
				pass(2 * time.Minute)
				if lost := lostOf(locks, upTo(alone, "alone", "named")); len(lost) > 0 {
					t.Errorf("lost are %v", lost)
				}
				end()
			})
		})
	}
}

// TestRiskBesideRenewals: a program holds 4000 locks of one log, and one of an owner that it names, whose path it
// offers for one that somebody else has: that is refused, and changes nothing. What the owner holds is asked, or the
// lock is not believed in for longer than 2 s: the renewals of the others do not hold that up.
func TestRiskBesideRenewals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := farAway(t)
		mine, err := c.TryLock(t.Context(), "a:/b/mine", Owner("batch"), TTL(time.Hour))
		mustLock(t, mine, err)
		locks := lockAll(t.Context(), c, 4000, ofOneLog, lasting(12*time.Second))
		for range 20 {
			res, err := c.Acquire(t.Context(), &wire.Request{
				Owner: "batch", TTLMillis: 60_000, Flags: wire.FlagNoQueue,
				Locks: []wire.LockRequest{{Path: "a:/b/theirs"}}, Releases: []wire.ReleaseRequest{{Path: "a:/b/mine"}},
			})
			if err != nil || res.Status != wire.StatusConflict {
				t.Fatal(res, err)
			}
			pass(time.Second)
		}
		if lost := lostOf(append(locks, mine), upTo(4000, "others", "mine")); len(lost) > 0 {
			t.Errorf("lost are %v: %v", lost, mine.Err())
		}
	})
}

// TestKeepersLeaveUsersSome: a program takes so many locks, over so many logs, that their renewals always wait for
// room: together these leave some to what else the program asks.
func TestKeepersLeaveUsersSome(t *testing.T) {
	for _, logs := range []int{4, 16} {
		t.Run(fmt.Sprint(logs, " logs"), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := farAway(t)
				spaces := inShares(c, logs)
				of := func(i int) string { return spaces[i%logs] }
				soon, over := context.WithTimeout(t.Context(), time.Minute)
				defer over()
				locks := lockAll(soon, c, 12_000, func(i int) string { return fmt.Sprint(of(i), "/", i) },
					lasting(12*time.Second))
				if lost := lostOf(locks, of); len(lost) > 0 {
					t.Errorf("lost, or not taken within a minute, are %v", lost)
				}
			})
		})
	}
}

// stuckKeepers is a client whose renewals of locks of two dozen logs are not answered, nor what the owner "sick" asks.
// It counts what else the server answered, by owners.
func stuckKeepers(t *testing.T) (c *Client, came map[string]int, keepers, users int) {
	f := newFake(t)
	c, p := f.telling(WithGrace(longGrace), WithBacklog(4096))
	came = make(map[string]int)
	go p.serve(func(a *asked) *wire.Result {
		if a.req.Op == wire.OpRenew && a.req.Flags != 0 {
			return nil
		}
		if came[a.req.Owner]++; a.req.Owner != "sick" {
			time.AfterFunc(time.Millisecond, func() { p.ok(a) })
		}
		return nil
	})
	l, err := c.TryLock(t.Context(), "a:/well/mine", Owner("me"), TTL(100*time.Hour))
	mustLock(t, l, err)
	spaces := inShares(c, 24)
	lockAll(t.Context(), c, 3600, func(i int) string { return fmt.Sprint(spaces[i%24], "/", i) }, lasting(time.Hour))
	pass(25 * time.Minute)
	s := &c.home.session
	s.mu.Lock()
	keepers, users = s.mu.flying, s.mu.limits.users
	s.mu.Unlock()
	if keepers < users*9/10 { // shares leave something to those that are new
		t.Fatalf("this shows nothing: %d are under way", keepers)
	}
	return c, came, keepers, users
}

// TestStuckKeepersLeaveUsersSome: however many renewals are not answered, what else the program asks has as many
// places of the window as it leaves to them.
func TestStuckKeepersLeaveUsersSome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, came, keepers, users := stuckKeepers(t)
		asksSick(c, 100)
		pass(time.Millisecond)
		if want := int(testLimits.InFlight) - users; came["sick"] < want {
			t.Errorf("%d renewals are under way, and %d of what else is asked, want %d", keepers, came["sick"], want)
		}
	})
}

// TestRenewalsYieldBesideStuckKeepers: nearly all of what that leaves to the program is stuck, too. The program's
// renewals, of which there are always some, yield the rest to what it asked before them.
func TestRenewalsYieldBesideStuckKeepers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, came, keepers, users := stuckKeepers(t)
		asksSick(c, max(users-keepers, int(testLimits.InFlight)-users)-2)
		pass(time.Millisecond)
		end := keeps(c, 300, renewsMine("a:/well"))
		pass(time.Millisecond)
		other := releaseOf("else", "a:/well/y")
		c.Go(&other, nil)
		pass(time.Second)
		if came["else"] == 0 {
			t.Errorf("it is not sent: the server got %d of the sick, %d renewals of the program",
				came["sick"], came["me"])
		}
		end()
	})
}

// TestAssuresAreDoubtful: what asks about locks at risk has its turn beside other renewals.
func TestAssuresAreDoubtful(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling(WithGrace(longGrace))
		p.serveAll()
		l, err := c.TryLock(t.Context(), "a:/b/mine", Owner("me"), TTL(time.Hour))
		mustLock(t, l, err)
		c.keeper.mu.Lock()
		defer c.keeper.mu.Unlock()
		var todo chores
		l.capped = c.now() + time.Second
		l.lease.assures.next = append(l.lease.assures.next, l)
		l.lease.assureNext(&todo)
		if len(todo.calls) != 1 || kindOf(todo.calls[0]) != doubtful {
			t.Errorf("%d calls", len(todo.calls))
		}
		l.capped = 0
	})
}
