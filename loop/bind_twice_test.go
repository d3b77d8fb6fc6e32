package loop_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// slowToRefuse is a handler that refuses a bind or an unbind once it was asked again, and the first after that: as
// the node does when the first waits for a log that has no leader, and there is no room for the second.
type slowToRefuse struct {
	*groups.Node
	first   *wire.Call
	refuses atomic.Bool
}

func (h *slowToRefuse) Serve(calls []*wire.Call) {
	for i, c := range calls {
		switch {
		case !h.refuses.Load() || c.Op != wire.OpBind && c.Op != wire.OpUnbind:
			h.Node.Serve(calls[i : i+1])
		case !c.Again:
			h.first = c
		default:
			for _, c := range []*wire.Call{c, h.first} {
				c.Res.Fail(wire.Errorf(wire.Unavailable, "nothing was done, try again"))
				c.To.Reply(c)
				c.To.Flush()
			}
		}
	}
}

// TestBindRefusedTwice: a bind or an unbind that is refused, and was while it was asked a second time, changes nothing.
func TestBindRefusedTwice(t *testing.T) {
	h := &slowToRefuse{Node: shared.get(t)}
	srv, err := loop.New(h, loop.Options{NodeID: h.NodeID(), ClusterID: h.ClusterID(), RepeatMillis: groups.RepeatMillis, Log: quiet, Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	addr, err := srv.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ns := named("twice")
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
		id := uint64(1000 + i)
		p.ops[id] = req.Op
		p.send(append(wire.AppendRequest(nil, id, req), wire.AppendRequest(nil, id, req)...))
		for range 2 {
			if res := p.reply(id); res.Code != wire.Unavailable {
				t.Fatal(res.Err())
			}
			p.ops[id] = req.Op
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
