package loop_test

import (
	"net"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/internal/tcp"
	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// TestStoodStill: what a client sent while the process stood still is not carried out when it goes on, and its connection is
// closed, whenever it sends more, also one that had not been taken yet; later ones are served. A short standstill changes nothing.
func TestStoodStill(t *testing.T) {
	s := serve(t, loop.Options{})
	for _, addr := range []net.Addr{s.tcp, s.unix} {
		ns := named("still" + addr.Network())
		p, later := join(t, addr), join(t, addr)
		s.StoodStill(tcp.GoneWithin - 5*time.Second)
		p.must(write(ns, ns+":/short"))

		s.StoodStill(tcp.GoneWithin + time.Second)
		p.start(write(ns, ns+":/old"))
		p.endedWith(wire.Unavailable, "stood still")

		early := dial(t, addr) // as one that waited to be accepted
		early.start(&wire.Request{Op: wire.OpHello, Hello: &wire.Hello{MinVersion: 1, MaxVersion: 1}})
		early.endedWith(wire.Unavailable, "stood still")

		time.Sleep(2 * time.Second) // two beats, and so long are connections not taken
		later.start(write(ns, ns+":/old"))
		later.endedWith(wire.Unavailable, "stood still")
		later = join(t, addr)
		if res := later.must(&wire.Request{Op: wire.OpInspectPath, Path: ns + ":/old"}); res.Owner != "" {
			t.Errorf("%v: what was sent before was carried out: %+v", addr, res)
		}
		later.must(write("other"+ns, ns+":/old"))
	}
}
