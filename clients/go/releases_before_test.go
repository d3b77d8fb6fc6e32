package pathlockd

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// before is a server that answers nothing that gives something back until it is told to, and from then on says that the
// owner holds nothing, though it has a lease.
type before struct {
	p     *peer
	back  chan *asked // what gives something back
	taken atomic.Bool
}

func newBefore(p *peer) *before {
	b := &before{p: p, back: make(chan *asked, 16)}
	p.lists = true
	go p.serve(func(a *asked) *wire.Result {
		switch {
		case givesBack(a.req):
			b.back <- a
			return nil
		case a.req.Op == wire.OpListLocks && !b.taken.Load():
			return &wire.Result{Done: true, List: &wire.List{Infos: []wire.LockInfo{
				{Path: "a:/b/c", HasFence: true, Fence: 7, SinceUnixMillis: 1},
			}}}
		}
		return granted(a.req)
	})
	return b
}

// TestReleasesItselfBefore: what a program gives back by a request of its own is sent before a lock of the client is
// asked for on the path, and carried out after that is granted: it was refused at first, or its log stood still.
func TestReleasesItselfBefore(t *testing.T) {
	ctx := context.Background()
	paths := []wire.ReleaseRequest{{Path: "a:/b/c"}}
	release := func(c *Client) { _ = c.Release(ctx, "me", paths, false, "") }
	lock := func(t *testing.T, c *Client) *Lock {
		l, err := c.Lock(ctx, "a:/b/c", TTL(time.Hour), Owner("me"))
		must(t, err)
		return l
	}
	for name, give := range map[string]func(c *Client){
		"the path":             release,
		"all":                  func(c *Client) { _ = c.ReleaseAll(ctx, "me", false, "") },
		"all of the namespace": func(c *Client) { _ = c.ReleaseAll(ctx, "me", false, "", "a:/b") },
		"by force":             func(c *Client) { _ = c.ForceRelease(ctx, "me", "") },
		"by Go": func(c *Client) {
			c.Go(&wire.Request{Op: wire.OpRelease, Owner: "me", Releases: paths}, nil)
		},
		"with an acquire that waits": func(c *Client) {
			_, _ = c.Acquire(ctx, &wire.Request{
				Owner: "me", TTLMillis: 1000, Locks: []wire.LockRequest{{Path: "a:/b/d"}}, Releases: paths,
				Flags: wire.FlagWait,
			})
		},
		"for nobody": func(c *Client) {
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, _ = c.Do(short, &wire.Request{Op: wire.OpRelease, Owner: "me", Releases: paths})
		},
	} {
		for _, refused := range []bool{false, true} {
			if refused && (name == "by Go" || name == "for nobody") {
				continue // that is not asked again
			}
			t.Run(name+map[bool]string{true: ", refused at first"}[refused], func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					f := newFake(t)
					c, p := f.telling()
					b := newBefore(p)
					go give(c)
					a := <-b.back
					pass(2 * time.Second) // who waits for a second goes
					l := lock(t, c)
					if refused {
						p.refuse(a, wire.Unavailable)
						a = <-b.back
					}
					pass(time.Minute)
					must(t, l.Err())
					b.taken.Store(true)
					p.ok(a)
					pass(askedWithin)
					if l.Err() == nil {
						t.Errorf("the program gave it back, and it counts as held for %v", time.Until(l.Deadline()))
					}
				})
			})
		}
	}
	t.Run("added to a batch before", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			f := newFake(t)
			c, p := f.telling()
			s := newBefore(p)
			b := c.Batch()
			must(t, b.Add(&wire.Request{Op: wire.OpReleaseAll, Owner: "me"}, nil))
			l := lock(t, c)
			pass(time.Minute)
			must(t, l.Err())
			must(t, b.Send(ctx))
			a := <-s.back
			s.taken.Store(true)
			p.ok(a)
			pass(askedWithin)
			if l.Err() == nil {
				t.Errorf("the program gave it back, and it counts as held for %v", time.Until(l.Deadline()))
			}
		})
	})
	t.Run("nobody knows", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			f := newFake(t)
			c, p := f.telling()
			s := newBefore(p)
			c.Go(&wire.Request{Op: wire.OpRelease, Owner: "me", Releases: paths}, nil)
			p.refuse(<-s.back, wire.DeadlineExceeded)
			pass(time.Second)
			l := lock(t, c)
			pass(time.Duration(testLimits.RepeatMillis)*time.Millisecond - 2*time.Second)
			must(t, l.Err())
			s.taken.Store(true)
			pass(2 * askedWithin)
			if l.Err() == nil {
				t.Errorf("it is given back, and counts as held for %v", time.Until(l.Deadline()))
			}
		})
	})
	t.Run("while it waits in the queue", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			f := newFake(t)
			c, p := f.telling()
			s := newBefore(p)
			l := lock(t, c)
			short, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			go c.Do(short, &wire.Request{
				Op: wire.OpAcquire, Owner: "me", TTLMillis: 1000, Locks: []wire.LockRequest{{Path: "a:/b/d"}},
				Releases: paths,
				Flags:    wire.FlagWait, QueueTTLMillis: 600_000,
			})
			a := <-s.back
			pass(2 * time.Minute) // its caller has gone, and the cancel came too late
			must(t, l.Err())
			s.taken.Store(true)
			p.ok(a)
			pass(askedWithin)
			if l.Err() == nil {
				t.Errorf("the program gave it back, and it counts as held for %v", time.Until(l.Deadline()))
			}
		})
	})
}
