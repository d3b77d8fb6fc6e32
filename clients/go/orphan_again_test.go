package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAReleaseThatGoesOnAndIsRefused: Unlock's caller has gone, the connection ends before the release is answered, and its
// repeat is answered UNAVAILABLE, which says nothing of the first time. It goes on where that does no harm if it was
// carried out: where its request or its token tells what it gives back, or nobody else takes locks in its owner's name.
func TestAReleaseThatGoesOnAndIsRefused(t *testing.T) {
	for name, one := range map[string]struct {
		mode Mode
		opts []LockOption
		on   bool
	}{
		"a write of an owner that the program names": {Write, []LockOption{Owner("me")}, true},
		"a read of one":                  {Read, []LockOption{Owner("me")}, false},
		"a read of an owner of its own":  {Read, nil, true},
		"a write of an owner of its own": {Write, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p, way := onLine(f, WithKeepAlive(time.Hour))
				locked := make(chan *Lock)
				go func() {
					l, err := c.LockAll(t.Context(), []Path{{Path: "a:/b/p", Mode: one.mode}}, append(one.opts, TTL(time.Hour))...)
					locked <- mustLock(t, l, err)
				}()
				a := p.want(wire.OpAcquire)
				res := granted(a.req)
				if one.mode == Read {
					res.Token = 0
				}
				p.reply(a.id, a.req.Op, res)
				l := <-locked
				ctx, leave := context.WithCancel(t.Context())
				freed := make(chan error, 1)
				go func() { freed <- l.UnlockContext(ctx) }()
				first := p.wantPast(wire.OpRelease)
				leave()
				if err := <-freed; err == nil {
					t.Fatal("nobody answered the release")
				}
				way.cut(nil)
				p = f.open()
				again := p.wantPast(wire.OpRelease)
				if again.id != first.id {
					t.Fatalf("request %d is repeated as %d", first.id, again.id)
				}
				p.refuse(again, wire.Unavailable)
				if !one.on {
					go p.serve(func(a *asked) *wire.Result {
						if a.req.Op == wire.OpRelease {
							t.Errorf("given back once more: %+v", a.req)
						}
						return granted(a.req)
					})
					pass(releaseLaterWithin)
				} else {
					next := p.wantPast(wire.OpRelease)
					if next.req.Token != first.req.Token || next.req.Target != first.req.Target {
						t.Errorf("given back by token %d and request %d, before by %d and %d", next.req.Token, next.req.Target,
							first.req.Token, first.req.Target)
					}
					p.ok(next)
					pass(time.Second)
				}
				if c.gates.shut.Load() != 0 {
					t.Fatal("a gate is shut")
				}
			})
		})
	}
}
