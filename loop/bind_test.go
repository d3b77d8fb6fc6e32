package loop_test

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// unbinding is a handler that can refuse every bind and unbind, as the node does while a log
// has no leader.
type unbinding struct {
	*groups.Node
	refuses atomic.Bool
}

func (u *unbinding) Serve(calls []*wire.Call) {
	for i, c := range calls {
		if c.Op != wire.OpBind && c.Op != wire.OpUnbind || !u.refuses.Load() {
			u.Node.Serve(calls[i : i+1])
			continue
		}
		c.Res.Fail(wire.Errorf(wire.Unavailable, "no leader answered; nothing was done"))
		c.To.Reply(c)
		c.To.Flush()
	}
}

// TestRefusedBind: a bind or an unbind that is refused changes nothing of how its owner hangs
// on the connection.
func TestRefusedBind(t *testing.T) {
	t.Parallel()
	const grace = 100 * time.Millisecond
	u := &unbinding{Node: shared.get(t)}
	srv, err := loop.New(u, loop.Options{
		NodeID: u.NodeID(), ClusterID: u.ClusterID(), RepeatMillis: groups.RepeatMillis, Log: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	var addr net.Addr
	if addr, err = srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	ns := named("refused")
	loose, bound, still := ns+"-loose", ns+"-bound", ns+"-still"
	bind := func(owner string, grace time.Duration) *wire.Request {
		return &wire.Request{Op: wire.OpBind, Owner: owner, GraceMillis: uint64(grace.Milliseconds())}
	}
	p := join(t, addr)
	for _, owner := range []string{bound, still} {
		if res := p.ask(bind(owner, grace)); res.Code != wire.OK {
			t.Fatal(res.Err())
		}
	}
	u.refuses.Store(true)
	p.refused(bind(loose, grace), wire.Unavailable, "nothing was done")
	p.refused(bind(bound, time.Hour), wire.Unavailable, "nothing was done")
	p.refused(&wire.Request{Op: wire.OpUnbind, Owner: still}, wire.Unavailable, "nothing was done")
	for _, owner := range []string{loose, bound, still} {
		p.must(write(owner, owner+":/a/x"))
	}
	p.hangUp()
	look := join(t, addr)
	for _, owner := range []string{bound, still} {
		eventually(t, "what "+owner+" holds ends with the connection", func() bool {
			by, _ := holder(look, owner+":/a/x")
			return by == ""
		})
	}
	if owner, left := holder(look, loose+":/a/x"); owner != loose || left < soon {
		t.Errorf("its bind was refused, and what it holds is held by %q for %v", owner, left)
	}
}

// TestBindsInFlight: of binds and unbinds that are asked at once, the last that is carried out
// counts.
func TestBindsInFlight(t *testing.T) {
	t.Parallel()
	s := serve(t, loop.Options{})
	ns := named("binds")
	p, look := join(t, s.tcp), join(t, s.tcp)
	var reqs []*wire.Request
	for range 3 {
		reqs = append(reqs, &wire.Request{Op: wire.OpBind, Owner: ns, GraceMillis: 1})
		reqs = append(reqs, &wire.Request{Op: wire.OpUnbind, Owner: ns})
	}
	for _, id := range p.start(reqs...) {
		if res := p.reply(id); res.Code != wire.OK {
			t.Fatal(res.Err())
		}
	}
	p.must(write(ns, ns+":/n/x"))
	p.hangUp()
	eventually(t, "the connection is gone", func() bool { return s.Connections() == 1 })
	if owner, left := holder(look, ns+":/n/x"); owner != ns || left < soon {
		t.Errorf("held by %q, %v left", owner, left)
	}
}
