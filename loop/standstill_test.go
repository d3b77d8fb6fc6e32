package loop_test

import (
	"net"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/internal/tcp"
	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// TestStoodStill: what a client sent while the process stood still is not carried out when it goes on, and its
// connection is closed, whenever it sends more, also one that had not been taken yet; later ones are served. A short
// standstill changes nothing.
func TestStoodStill(t *testing.T) {
	s := serve(t, loop.Options{})
	for _, addr := range []net.Addr{s.tcp, s.unix} {
		ns := named("still" + addr.Network())
		p, later := join(t, addr), join(t, addr)
		s.StoodStill(tcp.GoneWithin - 5*time.Second)
		if res := p.ask(&wire.Request{Op: wire.OpBind, Owner: ns, GraceMillis: 100}); res.Code != wire.OK {
			t.Fatal(res.Err())
		}
		tied := write(ns, ns+":/short")
		tied.TTLMillis = uint64(time.Hour.Milliseconds())
		p.must(tied)

		before := s.Stood()
		s.StoodStill(tcp.GoneWithin + time.Second)
		p.start(write(ns, ns+":/old"))
		p.endedWith(wire.DeadlineExceeded, "stood still")

		// Before the server notices, and right after that. One is new, as those are that waited to be accepted.
		early := func() *peer {
			p := dial(t, addr)
			p.start(&wire.Request{Op: wire.OpHello, Hello: &wire.Hello{MinVersion: 1, MaxVersion: 1}})
			return p
		}
		early().endedWith(wire.DeadlineExceeded, "stood still")
		eventually(t, "it is noticed", func() bool { return s.Stood() > before })
		early().endedWith(wire.DeadlineExceeded, "stood still")
		later.start(write(ns, ns+":/old"))
		later.endedWith(wire.DeadlineExceeded, "stood still")
		eventually(t, "connections are taken again", func() bool {
			p := early()
			return p.step() == nil && p.goodbye() == nil
		})
		later = join(t, addr)
		if res := later.must(&wire.Request{Op: wire.OpInspectPath, Path: ns + ":/old"}); res.Owner != "" {
			t.Errorf("%v: what was sent before was carried out: %+v", addr, res)
		}
		later.must(write("other"+ns, ns+":/old"))
		// Only a server that stops says Unavailable, and then keeps it (PROTOCOL.md section 3): here clients count it
		// as gone.
		eventually(t, "what is tied to the connection ends", func() bool {
			return later.must(&wire.Request{Op: wire.OpInspectPath, Path: ns + ":/short"}).Owner == ""
		})
	}
}
