package pathlockd

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// slow has a node be cut off from its peers, and not from the client, once that is called what it answers: it answers
// pings, and refuses everything else after request_timeout_ms. All else answers says.
func (f *fakeCluster) slow(node string, code wire.Code, answers func(p *peer, a *asked) *wire.Result) (cutOff func()) {
	off := make(chan struct{})
	f.serve = func(p *peer, a *asked) *wire.Result {
		select {
		case <-off:
			if p.node == node && a.req.Op != wire.OpPing {
				time.AfterFunc(30*time.Second, func() { p.refuse(a, code) })
				return nil
			}
		default:
		}
		return answers(p, a)
	}
	return func() { close(off) }
}

func grants(_ *peer, a *asked) *wire.Result { return granted(a.req) }

// TestAnOldLeaderThatIsSlow: a node is cut off from its peers and not from the client: it answers pings, and everything
// else after request_timeout_ms. The others have a leader 3 s later, which is told. A lock is kept: its renewals go
// where its namespace leads.
func TestAnOldLeaderThatIsSlow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeCluster(t, 2, 1, 0, 0, 0)
		c := f.client()
		f.warm(c)
		cutOff := f.slow("n1", wire.DeadlineExceeded, grants)
		l, err := c.TryLock(context.Background(), in(0))
		mustLock(t, l, err)
		pass(5 * time.Second)
		cutOff()
		pass(3 * time.Second)
		f.lead(0, 0, 0, 0)
		// asked of n1 in the 3 s
		go func() { _ = c.Release(context.Background(), "o", []wire.ReleaseRequest{{Path: in(0)}}, false, "") }()
		pass(0)
		f.tell()
		pass(28 * time.Second)
		if err := l.Err(); err != nil {
			t.Errorf("the lock: %v", err)
		}
		pass(time.Minute)
	})
}

// TestAnOldLeaderThatIsSlowAndNoLocks: as TestAnOldLeaderThatIsSlow, of a client that holds no lock: what it asks for
// behind a request that the old leader does not answer waits for about slowWay, and not for request_timeout_ms.
func TestAnOldLeaderThatIsSlowAndNoLocks(t *testing.T) {
	for name, holds := range map[string]bool{"it holds a lock": true, "it holds none": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFakeCluster(t, 2, 1, 0, 0, 0)
				c := f.client()
				f.warm(c)
				cutOff := f.slow("n1", wire.DeadlineExceeded, grants)
				if holds {
					l, err := c.TryLock(context.Background(), in(1))
					mustLock(t, l, err)
				}
				pass(5 * time.Second)
				cutOff()
				go func() {
					_ = c.Release(context.Background(), "o", []wire.ReleaseRequest{{Path: in(0)}},
						false, "")
				}()
				pass(time.Second)
				f.lead(0, 0, 0, 0)
				f.tell()
				pass(0)
				asked := time.Now()
				l, err := c.TryLock(within(t, time.Minute), in(0))
				mustLock(t, l, err)
				if d := time.Since(asked); d > 3*slowWay {
					t.Errorf("the lock took %v, though its leader answers at once", d)
				}
				pass(time.Minute)
			})
		})
	}
}

// TestUnlockBehindAnOldLeaderThatIsSlow: a node is cut off from its peers and not from the client: it answers pings,
// and everything else after request_timeout_ms. Another node leads since, which the client knows, and answers at once:
// locks that were taken by way of the old one are given back, whoever named their owner ("renewals and releases go
// where its namespace leads at the time").
func TestUnlockBehindAnOldLeaderThatIsSlow(t *testing.T) {
	for name, opts := range map[string][]LockOption{"an owner of its own": nil,
		"an owner that the program names": {Owner("me")}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFakeCluster(t, 2, 1, 0, 0, 0)
				c := f.client()
				f.warm(c)
				var mu sync.Mutex
				var unlocked, freed time.Time
				cutOff := f.slow("n1", wire.Unavailable, func(_ *peer, a *asked) *wire.Result {
					mu.Lock()
					defer mu.Unlock()
					if a.req.Op == wire.OpRelease && a.req.Releases[0].Path == in(0) && !unlocked.IsZero() &&
						freed.IsZero() {
						freed = time.Now()
					}
					return granted(a.req)
				})
				l, err := c.TryLock(context.Background(), in(0), append(opts, TTL(time.Hour))...)
				mustLock(t, l, err)
				other, err := c.TryLock(context.Background(), in(1)) // it holds something else as well
				mustLock(t, other, err)
				pass(5 * time.Second)
				cutOff()
				pass(3 * time.Second)
				f.lead(0, 0, 0, 0)
				f.tell()
				pass(10 * time.Second) // the client has known it for long
				must(t, l.Err())
				mu.Lock()
				unlocked = time.Now()
				mu.Unlock()
				if err := l.Unlock(); err != nil {
					t.Errorf("Unlock: %v", err)
				}
				pass(2 * time.Minute)
				must(t, other.Unlock())
				mu.Lock()
				defer mu.Unlock()
				if freed.IsZero() {
					t.Error("the path was never freed: it is locked for an hour, by nobody")
				} else if d := freed.Sub(unlocked); d > 5*time.Second {
					t.Errorf("the path was freed after %v", d)
				}
			})
		})
	}
}

// TestACancelBehindAnOldLeaderThatIsSlow: a lock is waited for in the queue, by way of a node that is then cut off from
// its peers and not from the client: it answers pings, and everything else after request_timeout_ms; what was cancelled
// it answers when it hears the log again. Another node leads since, which the client knows and which answers at once.
// The caller goes. The wait has to be ended where somebody hears of it: else it is granted to nobody, for its TTL; and
// its owner can take nothing else, on any path.
func TestACancelBehindAnOldLeaderThatIsSlow(t *testing.T) {
	for name, cutOff := range map[string]bool{"the old leader answers": false, "it is cut off": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFakeCluster(t, 2, 1, 0, 0, 0)
				c := f.client()
				f.warm(c)
				off := make(chan struct{})
				var mu sync.Mutex
				ended := time.Time{}
				f.serve = func(p *peer, a *asked) *wire.Result {
					if a.req.Op == wire.OpAcquire && a.req.Flags&wire.FlagWait != 0 { // somebody else has it
						p.send(wire.AppendQueued(nil,
							&wire.Queued{ID: a.id, Result: wire.Result{Status: wire.StatusQueued, Position: 1}}))
						return nil
					}
					select {
					case <-off:
						if cutOff && p.node == "n1" && a.req.Op != wire.OpPing {
							if a.req.Op != wire.OpCancel {
								time.AfterFunc(30*time.Second, func() { p.refuse(a, wire.Unavailable) })
								return nil
							}
							return granted(a.req) // it is noted
						}
					default:
					}
					if a.req.Op == wire.OpCancel {
						mu.Lock()
						ended = time.Now()
						mu.Unlock()
						p.reply(a.req.Target, wire.OpAcquire, &wire.Result{Code: wire.Cancelled, Message: "cancelled"})
					}
					return granted(a.req)
				}
				beside, err := c.TryLock(context.Background(), in(1)) // the client holds something, at n0
				mustLock(t, beside, err)
				ctx, leave := context.WithCancel(context.Background())
				waited := make(chan error, 1)
				go func() {
					_, err := c.Lock(ctx, in(0), Owner("me"))
					waited <- err
				}()
				pass(5 * time.Second)
				close(off)
				pass(3 * time.Second)
				f.lead(0, 0, 0, 0)
				f.tell()
				pass(10 * time.Second)
				leave()
				if err := <-waited; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				// Of another namespace, whose leader was never away.
				l, err := c.TryLock(within(t, 2*time.Minute), in(2), Owner("me"))
				if err != nil {
					t.Errorf("another path: %v", err)
				} else {
					must(t, l.Unlock())
				}
				mu.Lock()
				if ended.IsZero() {
					t.Error("two minutes later the wait is in the queue still: it is granted to nobody, for its TTL")
				}
				mu.Unlock()
				must(t, beside.Unlock())
			})
		})
	}
}

// TestLeftBeforeItsTime: a node of three that led everything is cut off from its peers. Its logs get new leaders one
// after the other, each half a second after the one before, which is told. What was under way to it is asked for by way
// of the next node, which is well and answers within 0.7 s, as all that are left do. "A node that takes longer than two
// seconds is left": this one does not take so long.
func TestLeftBeforeItsTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeCluster(t, 3, 1, 1, 1, 1)
		c := f.client()
		f.warm(c)
		var mu sync.Mutex
		off := false
		f.serve = func(p *peer, a *asked) *wire.Result {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case a.req.Op == wire.OpPing || !off:
			case p.node == "n1":
				return nil
			}
			time.AfterFunc(700*time.Millisecond, func() { p.ok(a) })
			return nil
		}
		mu.Lock()
		off = true
		mu.Unlock()
		for g := range groupsOfFakeCluster {
			go func() {
				_ = c.Release(context.Background(), "o", []wire.ReleaseRequest{{Path: in(g)}}, false, "")
			}()
		}
		pass(0)
		f.mu.Lock()
		hellos := len(f.hellos)
		f.mu.Unlock()
		for _, leads := range [][]int{{0, 1, 1, 1}, {0, 0, 1, 1}, {0, 0, 0, 1}, {0, 0, 0, 0}} {
			f.lead(leads...)
			f.tell()
			pass(500 * time.Millisecond)
		}
		pass(30 * time.Second)
		f.mu.Lock()
		defer f.mu.Unlock()
		if n := len(f.hellos) - hellos; n != 1 {
			t.Errorf("%d connections were made anew, and not the cut off one's alone", n)
			for _, p := range f.hellos[hellos:] {
				t.Log(p.node)
			}
		}
	})
}
