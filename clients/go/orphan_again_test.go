package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAReleaseThatGoesOnAndIsRefused: Unlock's caller has gone, the connection ends before the release is answered, and
// its repeat is answered UNAVAILABLE, which says nothing of the first time. It goes on under its id, which the server
// knows if it was carried out; a read of an owner that the program names by the request that took it, as another client
// may have taken the path since.
func TestAReleaseThatGoesOnAndIsRefused(t *testing.T) {
	for name, one := range map[string]struct {
		mode Mode
		opts []LockOption

		byRequest bool
	}{
		"a write of an owner that the program names": {mode: Write, opts: []LockOption{Owner("me")}},
		"a read of one":                  {mode: Read, opts: []LockOption{Owner("me")}, byRequest: true},
		"a read of an owner of its own":  {mode: Read, opts: nil},
		"a write of an owner of its own": {mode: Write, opts: nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p, way := onLine(f, WithKeepAlive(time.Hour))
				locked := make(chan *Lock)
				go func() {
					l, err := c.LockAll(t.Context(), []Path{{Path: "a:/b/p", Mode: one.mode}},
						append(one.opts, TTL(time.Hour))...)
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
				if one.byRequest {
					if again.id == first.id || again.req.Target != a.id || again.req.Token != 0 {
						t.Errorf("taken by %d, given back as %d: %+v", a.id, first.id, again.req)
					}
				} else if again.id != first.id {
					t.Errorf("request %d is repeated as %d", first.id, again.id)
				}
				p.refuse(again, wire.Unavailable)
				next := p.wantPast(wire.OpRelease)
				if next.req.Target != again.req.Target || !one.byRequest && next.id != first.id {
					t.Errorf("request %d is asked again as %d: %+v", first.id, next.id, next.req)
				}
				p.ok(next)
				pass(time.Second)
				if c.gates.shut.Load() != 0 {
					t.Fatal("a gate is shut")
				}
			})
		})
	}
}
