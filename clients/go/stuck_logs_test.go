package pathlockd

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// stuckFrom has a server answer after a tenth of a second, and about owners of some logs, whose names they begin with,
// after half a minute from some time on.
func (s *timed) stuckFrom(at map[string]time.Time) {
	s.takes(func(req *wire.Request) (time.Duration, bool) {
		log, _, _ := strings.Cut(req.Owner, "-")
		if from, ok := at[log]; ok && req.Op != wire.OpSubscribe && !time.Now().Before(from) {
			return 30 * time.Second, false
		}
		return 100 * time.Millisecond, false
	})
}

// takesOf takes so many locks in a log.
func takesOf(t *testing.T, c *Client, log string, n int) (locks []*Lock) {
	t.Helper()
	for i := range n {
		locks = append(locks, takesTwo(t, c, fmt.Sprintf("%s:/x/k%d", log, i), fmt.Sprintf("%s-%d", log, i),
			10*time.Second))
	}
	return locks
}

// TestLocksBesideStuckLogs: logs do not answer any more, one after the other or all at once, whose locks the keeper
// renews. Each takes as much of the window as it may. Locks of logs where all is well are kept, over a way of a tenth
// of a second; so are those of one in which nothing was held before.
func TestLocksBesideStuckLogs(t *testing.T) {
	for _, of := range []struct {
		logs  int           // that are stuck in the end
		apart time.Duration // one after the other
		well  int           // locks in each of two logs
	}{{9, 2 * time.Second, 1}, {9, 2 * time.Second, 20}, {16, 2 * time.Second, 1}, {40, 0, 1}, {40, 0, 10},
		{40, 500 * time.Millisecond, 10}} {
		t.Run(fmt.Sprintf("%d, %v apart", of.logs, of.apart), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newTimed(t)
				s.takes(always(100*time.Millisecond, nil))
				pick := picker(c)
				well, fresh, ill := pick("well", 2), pick("fresh", 1)[0], pick("ill", of.logs)
				kept := append(takesOf(t, c, well[0], of.well), takesOf(t, c, well[1], of.well)...)
				stuck := make(map[string]time.Time)
				for i, log := range ill {
					takesOf(t, c, log, max(20, 150>>i))
				}
				pass(time.Minute)
				for i, log := range ill {
					stuck[log] = time.Now().Add(time.Duration(i) * of.apart)
				}
				s.stuckFrom(stuck)
				for at := range 90 {
					if pass(time.Second); at == 45 {
						kept = append(kept, takesOf(t, c, fresh, 1)...)
					}
					for i, l := range kept {
						select {
						case <-l.Lost():
							m := &c.home.session.mu
							m.Lock()
							defer m.Unlock()
							t.Fatalf("lock %d is lost %d s after the first log is stuck: %d of 256 under way, %d of "+
								"the program",
								i, at, m.flying, m.shares[usersShare].flying)
						default:
						}
					}
				}
			})
		})
	}
}

// TestNewLogsBesideStuckLogs: nine logs got stuck one after the other. The program takes locks in logs that it did not
// use before, all but one of which get stuck as well. The lock of that one is kept.
func TestNewLogsBesideStuckLogs(t *testing.T) {
	for _, of := range []struct {
		fresh, locks int
		after        time.Duration
	}{{8, 1, 14 * time.Second}, {6, 2, 18 * time.Second}, {12, 1, 18 * time.Second}} {
		t.Run(fmt.Sprintf("%d of %d locks, after %v", of.fresh, of.locks, of.after), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newTimed(t)
				s.takes(always(100*time.Millisecond, nil))
				pick := picker(c)
				ill, fresh, well := pick("ill", 9), pick("fresh", of.fresh), pick("well", 1)[0]
				stuck := make(map[string]time.Time)
				for i, log := range ill {
					takesOf(t, c, log, max(20, 150>>i))
				}
				pass(time.Minute)
				for i, log := range ill {
					stuck[log] = time.Now().Add(time.Duration(i) * 2 * time.Second)
				}
				for _, log := range fresh {
					stuck[log] = time.Now().Add(of.after + 3*time.Second)
				}
				s.stuckFrom(stuck)
				pass(of.after)
				for _, log := range fresh {
					takesOf(t, c, log, of.locks)
				}
				kept := takesOf(t, c, well, 1)[0]
				for at := range 60 {
					pass(time.Second)
					select {
					case <-kept.Lost():
						t.Fatalf("the lock is lost %d s after it was taken", at)
					default:
					}
				}
			})
		})
	}
}

// TestProgramBesideStuckLogs: the keeper's renewals of many logs that do not answer have all that they may have of the
// window. So do requests of the program, but for one of those that it always may have: what it asks of a log where all
// is well is answered.
func TestProgramBesideStuckLogs(t *testing.T) {
	for _, of := range []struct{ window, logs int }{{32, 16}, {40, 20}, {64, 31}, {256, 60}} {
		t.Run(fmt.Sprintf("%d logs, a window of %d", of.logs, of.window), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newTimed(t, WithWindow(of.window))
				s.takes(always(time.Millisecond, nil))
				pick := picker(c)
				well, ill := pick("well", 1)[0], pick("ill", of.logs)
				for _, log := range ill {
					for i := range 6 {
						takesTwo(t, c, fmt.Sprintf("%s:/x/k%d", log, i), fmt.Sprintf("%s-%d", log, i), 10*time.Second)
					}
				}
				pass(time.Minute)
				s.takes(func(req *wire.Request) (time.Duration, bool) {
					if strings.HasPrefix(req.Owner, "ill") && req.Op != wire.OpSubscribe {
						return 30 * time.Second, false
					}
					return time.Millisecond, false
				})
				pass(5 * time.Second)
				m := &c.home.session.mu
				m.Lock()
				reserve := m.limits.all - m.limits.users
				m.Unlock()
				var stuck sync.WaitGroup
				for i := range reserve - 1 {
					stuck.Go(func() {
						_, _ = c.TryLock(t.Context(), ill[0]+":/x/p", Owner(fmt.Sprint("ill-p", i)), TTL(time.Hour))
					})
				}
				pass(10 * time.Millisecond)
				takesOneMore(t, c, well+":/x/p", "p", time.Second)
				stuck.Wait()
			})
		})
	}
}

// TestKnownShares: a share is known while it has something under way, or asks something now and then. Then so much is
// kept for it.
func TestKnownShares(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, _ := newTimed(t)
		s := &c.home.session
		s.mu.Lock()
		defer s.mu.Unlock()
		before := s.mu.known
		s.mu.known = known{}
		is := func(when string, unclaimed int, shares ...uint8) {
			t.Helper()
			var want uint64
			for _, share := range shares {
				want |= 1 << share
			}
			if k := &s.mu.known; k.shares != want || k.unclaimed != unclaimed {
				t.Errorf("%s: %b are known, %d unclaimed, want %b, %d", when, k.shares, k.unclaimed, want, unclaimed)
			}
		}
		stays := call{share: 9}
		s.sends(9, 0)
		s.counted(&stays, 1)
		s.sends(10, 0)
		is("two ask", 3, 9, 10)
		s.sends(10, knownFor-1)
		s.sends(11, knownFor-1)
		is("within the time", 5, 9, 10, 11)
		s.sends(12, knownFor)
		is("these asked in it", 7, 9, 10, 11, 12)
		s.sends(11, 2*knownFor)
		is("of what asked nothing since that stays which is not answered", 5, 9, 11, 12)
		s.sends(10, 4*knownFor)
		is("nobody asked for long", 3, 9, 10)
		s.counted(&stays, -1)
		is("it is answered", 4, 9, 10)
		s.mu.holding |= 1 << 13
		s.sends(11, 6*knownFor)
		is("one is forgotten, one waits for room", 4, 11, 13)
		s.mu.holding &^= 1 << 13
		s.mu.known = before
	})
}
