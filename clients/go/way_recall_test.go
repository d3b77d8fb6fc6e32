package pathlockd

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestALeaderChangesWhileTooManyWait: a client has as many waiting acquires as a connection may have (limits.waiting;
// 16 384 of a real server), and asks for one more, which is not sent yet. Then the namespace of that gets another
// leader. The client's lock there, which has nothing to do with those that wait, is kept and can be given back: all
// nodes answer at once all the time.
func TestALeaderChangesWhileTooManyWait(t *testing.T) {
	for name, more := range map[string]int{"as many as may wait": 0, "one more": 1} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFakeCluster(t, 2, 0, 0, 1, 1)
				c := f.client()
				f.warm(c)
				f.serve = func(p *peer, a *asked) *wire.Result {
					if a.req.Op == wire.OpAcquire && a.req.Flags&wire.FlagWait != 0 { // somebody else has it for long
						p.send(wire.AppendQueued(nil,
							&wire.Queued{ID: a.id, Result: wire.Result{Status: wire.StatusQueued, Position: 1}}))
						return nil
					}
					if a.req.Op == wire.OpCancel {
						p.reply(a.req.Target, wire.OpAcquire, &wire.Result{Code: wire.Cancelled, Message: "cancelled"})
					}
					return granted(a.req)
				}
				l, err := c.TryLock(context.Background(), in(0)+"/mine", TTL(30*time.Second))
				mustLock(t, l, err)
				ctx, stop := context.WithCancel(context.Background())
				defer func() { stop(); pass(time.Second) }()
				for i := range int(testLimits.Waiting) { // of another namespace, whose leader stays
					go func() { _, _ = c.Lock(ctx, fmt.Sprintf("%s/w%d", in(1), i)) }()
				}
				pass(0)
				for range more {
					go func() { _, _ = c.Lock(ctx, in(0)+"/theirs") }()
				}
				pass(0)
				f.lead(1, 0, 1, 1)
				f.tell()
				pass(time.Second)
				must(t, l.Err())
				pass(time.Minute)
				if err := l.Err(); err != nil {
					t.Errorf("the lock: %v", err)
				}
				try, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				if other, err := c.TryLock(try, in(0)+"/other"); err != nil {
					t.Errorf("TryLock of another path: %v", err)
				} else {
					must(t, other.Unlock())
				}
				if err := l.Unlock(); err != nil {
					t.Errorf("Unlock: %v", err)
				}
			})
		})
	}
}

// TestALeaderChangesWhileTheWindowIsFull: the window is full of a request to a log that has no leader, which its node
// answers after 30 s (request_timeout_ms), and a request of another namespace waits for room. That one gets another
// leader. A lock there is renewed all the same: renewals have a reserve of the window.
func TestALeaderChangesWhileTheWindowIsFull(t *testing.T) {
	for name, moves := range map[string]bool{"the leader stays": false, "the leader changes": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFakeCluster(t, 2, 0, 0, 1, 1)
				c := f.client(WithWindow(2))
				f.warm(c)
				var mu sync.Mutex
				var slow func()
				f.serve = func(p *peer, a *asked) *wire.Result {
					if a.req.Owner == "slow" {
						mu.Lock()
						defer mu.Unlock()
						slow = func() { p.refuse(a, wire.Unavailable) }
						return nil
					}
					return granted(a.req)
				}
				l, err := c.TryLock(context.Background(), in(0)+"/mine", TTL(20*time.Second))
				mustLock(t, l, err)
				c.Go(&wire.Request{Op: wire.OpRelease, Owner: "slow", Releases: []wire.ReleaseRequest{{Path: in(1)}}},
					func(*wire.Result, error) {})
				pass(0)
				c.Go(&wire.Request{Op: wire.OpRelease, Owner: "unsent", Releases: []wire.ReleaseRequest{{Path: in(0)}}},
					func(*wire.Result, error) {})
				pass(0)
				if moves {
					f.lead(1, 0, 1, 1)
					f.tell()
				}
				pass(29 * time.Second)
				if err := l.Err(); err != nil {
					t.Errorf("the lock: %v", err)
				}
				mu.Lock()
				slow()
				mu.Unlock()
				pass(time.Second)
			})
		})
	}
}
