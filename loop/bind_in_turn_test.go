package loop_test

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// hanging is a client with an owner that is bound to its connection by a short grace and is to be bound by a long one,
// and another that is bound and is not to be. What is to be done with both is refused.
type hanging struct {
	*peer
	look *peer
	asks map[string]*wire.Request // by owner
}

// hangs is one at a server of a handler.
func hangs(t *testing.T, h wire.Handler, of string) *hanging {
	t.Helper()
	node := shared.get(t)
	srv, err := loop.New(h, loop.Options{
		NodeID: node.NodeID(), ClusterID: node.ClusterID(), RepeatMillis: groups.RepeatMillis, Log: quiet, Loops: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	addr, err := srv.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bound, still := named(of)+"-bound", named(of)+"-still"
	c := &hanging{peer: join(t, addr), look: join(t, addr), asks: map[string]*wire.Request{
		bound: {Op: wire.OpBind, Owner: bound, GraceMillis: uint64(time.Hour.Milliseconds())},
		still: {Op: wire.OpUnbind, Owner: still},
	}}
	for owner := range c.asks {
		if res := c.ask(&wire.Request{Op: wire.OpBind, Owner: owner, GraceMillis: 100}); res.Code != wire.OK {
			t.Fatal(res.Err())
		}
	}
	return c
}

// endsSoon says that what the owners take for an hour ends soon after the connection: nothing was done of what was
// refused.
func (c *hanging) endsSoon(t *testing.T) {
	t.Helper()
	for owner := range c.asks {
		req := write(owner, owner+":/a/x")
		req.TTLMillis = uint64(time.Hour.Milliseconds())
		if res := c.ask(req); res.Code != wire.OK {
			t.Fatal(res.Err())
		}
	}
	c.hangUp()
	for owner := range c.asks {
		eventually(t, "the lock of "+owner+" has ended with its connection", func() bool {
			by, _ := holder(c.look, owner+":/a/x")
			return by == ""
		})
	}
}

// TestBindRefusedInTurn: a bind or an unbind that is refused, and is refused again when its client repeats it after
// that, changes nothing.
func TestBindRefusedInTurn(t *testing.T) {
	h := &unbinding{Node: shared.get(t)}
	c := hangs(t, h, "in-turn")
	h.refuses.Store(true)
	id := uint64(1000)
	for _, req := range c.asks {
		id++
		for range 2 {
			if res := c.raw(id, req); res.Code != wire.Unavailable {
				t.Fatal(res.Err())
			}
		}
	}
	h.refuses.Store(false)
	c.last = id
	c.endsSoon(t)
}
