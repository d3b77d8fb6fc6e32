package loop_test

import (
	"fmt"
	"testing"

	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// TestAskedAnewIsCountedOnce: a client waits with a tied acquire, its connection breaks, and it comes back within the
// grace and asks again. What the server counts as the memory of the first call is let go of: it refuses nothing for
// want of memory that it has.
func TestAskedAnewIsCountedOnce(t *testing.T) {
	const limit = 1 << 20
	for _, how := range []string{"its connection ended before", "the next hello ends its connection"} {
		t.Run(how, func(t *testing.T) {
			s := serve(t, loop.Options{Held: limit})
			ns := named("anew")
			path := ns + ":/n/x"
			a := join(t, s.tcp)
			a.must(write("a", path))
			hello := func(epoch uint64) *wire.Hello {
				return &wire.Hello{Session: []byte(fmt.Sprintf("adv12-%010d", len(how))), Epoch: epoch, Grace: 30_000}
			}
			p := joinAs(t, s.tcp, hello(1))
			p.last = 9
			frame, id := padded(p, flagged(write("w", path), wire.FlagWait|wire.FlagBind), 100<<10)
			for epoch := uint64(1); ; epoch++ {
				p.send(frame)
				for len(p.pushes) == 0 && len(p.replies) == 0 {
					p.must1(p.step())
				}
				if res, ok := p.replies[id]; ok {
					t.Errorf("one wait of 100 KiB is asked again after %d reconnects, and answered %v",
						epoch-1, res.Err())
					break
				}
				p.push(wire.PushQueued)
				if epoch == 16 {
					break
				}
				if how == "its connection ended before" {
					p.hangUp()
				}
				ops := p.ops
				p = joinAs(t, s.tcp, hello(epoch+1))
				for id, op := range ops {
					p.ops[id] = op
				}
				p.last += id + epoch
			}
			a.must(release("a", path))
			p.hangUp()
			a.hangUp()
			// Nothing is asked any more.
			b := join(t, s.tcp)
			eventually(t, "the path is free", func() bool {
				owner, _ := holder(b, path)
				return owner == "" || owner == "w"
			})
			long, other := padded(b, flagged(write("b", ns+":/n/y"), wire.FlagWait), 200<<10)
			b.send(long)
			if res := b.reply(other); res.Code != wire.OK {
				t.Errorf("nobody waits, and an acquire of 200 KiB is answered %v", res.Err())
			}
		})
	}
}
