package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestARefusedRepeatIsTakenBack: an acquire is not answered before its connection ends, and its repeat is refused by a
// node, which says nothing about the first time: it may have too much to do, or the paths have come to several
// namespaces since.
func TestARefusedRepeatIsTakenBack(t *testing.T) {
	for _, code := range []wire.Code{wire.InvalidArgument, wire.FailedPrecondition, wire.PermissionDenied} {
		t.Run(code.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p, way := onLine(f, WithKeepAlive(time.Hour))
				failed := make(chan error, 1)
				go func() {
					_, err := c.LockAll(t.Context(), []Path{{Path: "a:/b/p"}, {Path: "a:/b/q"}}, TTL(time.Hour))
					failed <- err
				}()
				first := p.want(wire.OpAcquire)
				way.cut(nil)
				p = f.open()
				again := p.wantPast(wire.OpAcquire)
				if again.id != first.id {
					t.Fatalf("request %d is repeated as %d", first.id, again.id)
				}
				p.refuse(again, code)
				back := p.wantPast(wire.OpRelease)
				if back.req.Target != first.id || len(back.req.Releases) != 2 {
					t.Errorf("request %d is taken back by %+v", first.id, back.req)
				}
				p.ok(back)
				if err := <-failed; codeOf(err) != code {
					t.Errorf("the caller is told %v", err)
				}
			})
		})
	}
}

// TestARepeatThatIsTooMuch: a server has too much to do for a repeat of what it may have carried out. It is asked
// again.
func TestARepeatThatIsTooMuch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p, way := onLine(f, WithKeepAlive(time.Hour))
		done := doing(t.Context(), c, &wire.Request{Op: wire.OpReleaseAll, Owner: "me"})
		first := p.want(wire.OpReleaseAll)
		way.cut(nil)
		p = f.open()
		for range 3 {
			again := p.wantPast(wire.OpReleaseAll)
			if again.id != first.id {
				t.Fatalf("request %d is repeated as %d", first.id, again.id)
			}
			p.refuse(again, wire.ResourceExhausted)
		}
		again := p.wantPast(wire.OpReleaseAll)
		p.ok(again)
		if got := <-done; got.err != nil {
			t.Error(got.err)
		}
	})
}

// TestAReleaseThatIsTooMuch: a server has too much to do for a release. It is asked for again, whether somebody waits
// for it or not.
func TestAReleaseThatIsTooMuch(t *testing.T) {
	for name, left := range map[string]bool{"somebody waits": false, "nobody waits": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.client(WithKeepAlive(time.Hour))
				locked := make(chan *Lock)
				go func() {
					l, err := c.Lock(t.Context(), "a:/b/p", TTL(time.Hour))
					locked <- mustLock(t, l, err)
				}()
				a := p.want(wire.OpAcquire)
				p.reply(a.id, a.req.Op, granted(a.req))
				l := <-locked
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				freed := make(chan error, 1)
				go func() { freed <- l.UnlockContext(ctx) }()
				for range 3 {
					back := p.wantPast(wire.OpRelease)
					if left {
						leave()
						if freed != nil {
							<-freed
						}
						freed = nil
					}
					p.refuse(back, wire.ResourceExhausted)
				}
				p.ok(p.wantPast(wire.OpRelease))
				if !left {
					if err := <-freed; err != nil {
						t.Error(err)
					}
				}
				pass(time.Second)
				if c.gates.shut.Load() != 0 {
					t.Error("a gate is shut")
				}
			})
		})
	}
}
