package loop_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// leaderless is a handler that refuses binds and unbinds for a time, as the node does while no log has a leader.
type leaderless struct {
	*groups.Node
	refuses atomic.Bool
}

func (h *leaderless) Serve(calls []*wire.Call) {
	for i, c := range calls {
		if !h.refuses.Load() || c.Op != wire.OpBind && c.Op != wire.OpUnbind {
			h.Node.Serve(calls[i : i+1])
			continue
		}
		c.Res.Fail(wire.Errorf(wire.Unavailable, "nothing was done, try again"))
		c.To.Reply(c)
		c.To.Flush()
	}
}

// TestBindRefusedInTurn: a bind or an unbind that is refused, and is refused again when its client repeats it after
// that, changes nothing.
func TestBindRefusedInTurn(t *testing.T) {
	h := &leaderless{Node: shared.get(t)}
	srv, err := loop.New(h, loop.Options{
		NodeID: h.NodeID(), ClusterID: h.ClusterID(), RepeatMillis: groups.RepeatMillis, Log: quiet, Loops: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	addr, err := srv.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ns := named("in-turn")
	p, look := join(t, addr), join(t, addr)
	bound, still := ns+"-bound", ns+"-still"
	for _, owner := range []string{bound, still} {
		if res := p.ask(&wire.Request{Op: wire.OpBind, Owner: owner, GraceMillis: 100}); res.Code != wire.OK {
			t.Fatal(res.Err())
		}
	}
	h.refuses.Store(true)
	for i, req := range []*wire.Request{
		{Op: wire.OpBind, Owner: bound, GraceMillis: uint64(time.Hour.Milliseconds())}, {Op: wire.OpUnbind, Owner: still},
	} {
		for range 2 {
			if res := p.raw(uint64(1000+i), req); res.Code != wire.Unavailable {
				t.Fatal(res.Err())
			}
		}
	}
	for i, owner := range []string{bound, still} {
		req := write(owner, owner+":/a/x")
		req.TTLMillis = uint64(time.Hour.Milliseconds())
		if res := p.raw(uint64(2000+i), req); res.Code != wire.OK {
			t.Fatal(res.Err())
		}
	}
	p.hangUp()
	for _, owner := range []string{bound, still} { // the lock of one that is bound to nothing stays for an hour
		eventually(t, "the lock of "+owner+" has ended with its connection", func() bool {
			by, _ := holder(look, owner+":/a/x")
			return by == ""
		})
	}
}
