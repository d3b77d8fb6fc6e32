package pathlockd

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// picker answers handlers whose namespaces have a share each.
func picker(c *Client) func(kind string, n int) []string {
	shares := make(map[uint8]bool)
	return func(kind string, n int) (names []string) {
		for i := 0; len(names) < n; i++ {
			name := fmt.Sprint(kind, i)
			if share := c.shareOf(name + ":/x"); !shares[share] {
				shares[share] = true
				names = append(names, name)
			}
		}
		return names
	}
}

// TestAcquaintLeavesTheReserve: the window is full of requests of the program to three logs that do not answer, and it
// would have tokens raised there. What is asked before keeps no lock, and has nothing of what users leave to what does:
// beside renewals of two more such logs, locks of logs where all is well are kept.
func TestAcquaintLeavesTheReserve(t *testing.T) {
	for _, raisers := range []int{0, 1, 8} { // in each of the three
		t.Run(fmt.Sprint(raisers, " raise"), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newTimed(t)
				s.takes(always(time.Millisecond, nil))
				pick := picker(c)
				well, ill, bad := pick("well", 3), pick("ill", 3), pick("bad", 2)
				var kept []*Lock
				for i := range 6 {
					name := well[i%3]
					kept = append(kept, takesTwo(t, c, fmt.Sprintf("%s:/x/k%d", name, i), fmt.Sprintf("%s-%d", name, i),
						10*time.Second))
				}
				for _, name := range bad {
					takesTwo(t, c, name+":/x/k0", name+"-0", 30*time.Second)
				}
				pass(time.Minute)
				stuck := func(owner string) bool {
					return strings.HasPrefix(owner, "ill") ||
						strings.HasPrefix(owner, "bad")
				}
				// so that it is not known since when they are held
				s.takes(func(req *wire.Request) (time.Duration, bool) {
					if req.Op == wire.OpListLocks && strings.HasPrefix(req.Owner, "ill") {
						return time.Minute, false
					}
					return time.Millisecond, false
				})
				held := func(i int) (path, owner string) {
					name := ill[i%3]
					return fmt.Sprintf("%s:/x/r%d", name, i), fmt.Sprintf("%s-r%d", name, i)
				}
				for i := range 3 * raisers {
					path, owner := held(i)
					l, err := c.TryLock(t.Context(), path, Owner(owner), TTL(time.Hour))
					mustLock(t, l, err)
				}
				pass(10 * time.Second) // they are renewed for an hour
				s.takes(func(req *wire.Request) (time.Duration, bool) {
					if stuck(req.Owner) && req.Op != wire.OpSubscribe {
						return 30 * time.Second, false
					}
					return time.Millisecond, false
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for i := range 300 {
					name := ill[i%3]
					go func() {
						_, _ = c.TryLock(ctx, fmt.Sprintf("%s:/x/u%d", name, i), Owner(fmt.Sprintf("%s-u%d", name, i)),
							TTL(time.Hour))
					}()
				}
				pass(time.Millisecond)
				for i := range 3 * raisers {
					path, owner := held(i)
					go func() {
						_, _ = c.TryLockAll(ctx, []Path{{Path: path}, {Path: path + "too"}}, Owner(owner),
							TTL(time.Hour))
					}()
				}
				for range 28 {
					pass(time.Second)
					for _, l := range kept {
						if s.isHeld(l); t.Failed() {
							return
						}
					}
				}
			})
		})
	}
}

// TestAcquaintBesideABusyProgram: sixteen logs do not answer, and their locks' renewals take nearly all of the window.
// The program is busy in a log where all is well, and has what users always have. What is asked there before a token is
// raised has its turn at once, though such questions in other logs are not answered.
func TestAcquaintBesideABusyProgram(t *testing.T) {
	for _, raises := range []int{0, 2, 3} {
		t.Run(fmt.Sprint(raises, " hang"), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newTimed(t)
				pick := picker(c)
				well, ill, bad := pick("well", 1)[0], pick("ill", 16), pick("bad", 3)
				// so that it is not known since when they are held
				s.takes(func(req *wire.Request) (time.Duration, bool) {
					if req.Op == wire.OpListLocks && strings.HasSuffix(req.Owner, "-r") {
						return time.Minute, false
					}
					return time.Millisecond, false
				})
				for i := range 16 * 15 {
					path, owner := fmt.Sprintf("%s:/x/k%d", ill[i%16], i), fmt.Sprintf("%s-%d", ill[i%16], i)
					l, err := c.TryLock(t.Context(), path, Owner(owner), TTL(time.Minute))
					mustLock(t, l, err)
				}
				pass(2 * time.Minute)
				for _, name := range append([]string{well}, bad...) {
					l, err := c.TryLock(t.Context(), name+":/x/r", Owner(name+"-r"), TTL(time.Hour))
					mustLock(t, l, err)
				}
				pass(5 * time.Second)
				s.takes(func(req *wire.Request) (time.Duration, bool) {
					if req.Op != wire.OpSubscribe && !strings.HasPrefix(req.Owner, well) {
						return 30 * time.Second, false
					}
					return 2 * time.Millisecond, false
				})
				flying := func() int {
					c.home.session.mu.Lock()
					defer c.home.session.mu.Unlock()
					return c.home.session.mu.flying
				}
				for i := 0; flying() < 224; i++ {
					if pass(time.Second); i == 60 {
						t.Fatalf("%d under way: this shows nothing", flying())
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var done atomic.Int64
				for i := range 40 {
					go func() {
						for ctx.Err() == nil {
							path, owner := fmt.Sprintf("%s:/x/u%d", well, i), fmt.Sprintf("%s-u%d", well, i)
							if l, err := c.TryLock(ctx, path, Owner(owner), TTL(time.Hour)); err == nil {
								done.Add(1)
								_ = l.Unlock()
							}
						}
					}()
				}
				pass(100 * time.Millisecond)
				for _, name := range bad[:raises] {
					go func() {
						both := []Path{{Path: name + ":/x/r"}, {Path: name + ":/x/s"}}
						_, _ = c.TryLockAll(ctx, both, Owner(name+"-r"), TTL(time.Hour))
					}()
				}
				pass(100 * time.Millisecond)
				takesOneMore(t, c, well+":/x/r", well+"-r", time.Second)
				if done.Load() < 100 {
					t.Errorf("%d acquires of the busy program: this shows nothing", done.Load())
				}
			})
		})
	}
}
