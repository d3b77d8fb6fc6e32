package pathlockd

import (
	"context"
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestUnlockUnderARaisedToken: what an owner asks for beside a lock of its own may raise the lock's
// token, and be given back with nobody told of that token; a release under the token that the lock knows does not
// give the path back then. So the acquire that took the lock is taken back too. That is so while the
// other request is under way, and once it was given up; of other paths, and of one that was refused,
// it is not.
func TestUnlockUnderARaisedToken(t *testing.T) {
	p, q := Path{Path: "a:/b/p"}, Path{Path: "a:/b/q"}
	for name, one := range map[string]struct {
		paths []Path
		gone  bool // its caller has, when the lock is given back
		taken bool // it was granted then
		twice bool
	}{
		"given up, granted":      {[]Path{p, q}, true, true, true},
		"given up, not answered": {[]Path{p, q}, true, false, true},
		"under way":              {[]Path{p, q}, false, false, true},
		"other paths, given up":  {[]Path{q}, true, true, false},
		"other paths, under way": {[]Path{q}, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, peer := f.client()
				locked := make(chan *Lock)
				go func() {
					l, err := c.Lock(context.Background(), p.Path, Owner("me"))
					locked <- mustLock(t, l, err)
				}()
				first := peer.want(wire.OpAcquire)
				peer.ok(first)
				l := <-locked
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				other := make(chan error, 1)
				go func() {
					_, err := c.LockAll(ctx, one.paths, Owner("me"))
					other <- err
				}()
				second := peer.want(wire.OpAcquire)
				if one.gone {
					cancel()
					if err := <-other; err == nil {
						t.Fatal("the other request was granted")
					}
				}
				if one.taken {
					peer.ok(second)
					undone := peer.wantPast(wire.OpRelease)
					if undone.req.Target != second.id {
						t.Fatalf("the release names %d, want %d", undone.req.Target, second.id)
					}
					peer.ok(undone)
				}
				freed := make(chan error, 1)
				go func() { freed <- l.Unlock() }()
				r := peer.wantPast(wire.OpRelease)
				if r.req.Token != l.Token() || r.req.Target != 0 {
					t.Fatalf("the first release names token %d and request %d", r.req.Token, r.req.Target)
				}
				peer.ok(r)
				if one.twice {
					if r = peer.wantPast(wire.OpRelease); r.req.Target != first.id || r.req.Token != 0 {
						t.Fatalf("the second release names token %d and request %d, want %d", r.req.Token, r.req.Target, first.id)
					}
					peer.ok(r)
				}
				must(t, <-freed)
			})
		})
	}
}

// TestRefusedRequestRaisesNothing: a request that was answered that it is refused has raised no token.
func TestRefusedRequestRaisesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, peer := f.client()
		go peer.serve(func(a *asked) *wire.Result {
			switch {
			case a.req.Op == wire.OpAcquire && len(a.req.Locks) > 1:
				return &wire.Result{Status: wire.StatusConflict, Path: "a:/b/q", Owner: "you", Reason: wire.ReasonWriteLocked}
			case a.req.Op == wire.OpRelease && a.req.Target != 0:
				t.Errorf("request %d is taken back", a.req.Target)
			}
			return granted(a.req)
		})
		l, err := c.Lock(context.Background(), "a:/b/p", Owner("me"))
		mustLock(t, l, err)
		if _, err := c.TryLockAll(context.Background(), []Path{{Path: "a:/b/p"}, {Path: "a:/b/q"}}, Owner("me")); err == nil {
			t.Fatal("it was granted")
		}
		must(t, l.Unlock())
	})
}
