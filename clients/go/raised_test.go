package pathlockd

import (
	"context"
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestUnlockNamesTokenAndRequest: what others ask for in a lock's owner's name may raise its token, and be given back with
// nobody told of that token; a release under the token that the lock knows does not give the path back then. So of
// owners that the program names the release names the acquire that took the lock as well. Reads and permits go by
// themselves, and of an owner that the client made up the token is enough.
func TestUnlockNamesTokenAndRequest(t *testing.T) {
	for name, one := range map[string]struct {
		mode Mode
		opts []LockOption
		both bool
	}{
		"an owner that the program names": {Write, []LockOption{Owner("me")}, true},
		"a read of one":                   {Read, []LockOption{Owner("me")}, false},
		"an owner of its own":             {Write, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, peer := f.client()
				locked := make(chan *Lock)
				go func() {
					l, err := c.LockAll(context.Background(), []Path{{Path: "a:/b/p", Mode: one.mode}}, one.opts...)
					locked <- mustLock(t, l, err)
				}()
				a := peer.want(wire.OpAcquire)
				if a.req.Locks[0].Mode == wire.ModeRead {
					peer.reply(a.id, a.req.Op, &wire.Result{Namespace: "a:/b"})
				} else {
					peer.ok(a)
				}
				l := <-locked
				freed := make(chan error, 1)
				go func() { freed <- l.Unlock() }()
				r := peer.wantPast(wire.OpRelease)
				if r.req.Token != l.Token() || (r.req.Target == a.id) != one.both || !one.both && r.req.Target != 0 {
					t.Errorf("the release names token %d and request %d, of %d and %d", r.req.Token, r.req.Target, l.Token(), a.id)
				}
				peer.ok(r)
				must(t, <-freed)
			})
		})
	}
}
