package loop_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// handed is a handler that hands out what tells a session of its leases, and an event loop that a Topology stands still
// for.
type handed struct {
	wire.Handler
	tell  chan func(*wire.LeaseEvent)
	stand chan chan struct{}
}

func (h *handed) Tell(_ [wire.SessionBytes]byte, tell func(*wire.LeaseEvent)) (stop func()) {
	h.tell <- tell
	return func() {}
}

func (h *handed) Topology(watch func(*wire.Topology)) (*wire.Topology, func()) {
	on := make(chan struct{})
	h.stand <- on
	<-on
	return h.Handler.Topology(watch)
}

// TestToldWithRoomAgain: a client that was not told all hears that, once it has read what there was: while it goes on
// reading, and also when its connection is about to go back to its loop just then, for something that it sent; and
// nothing of it is sent before.
func TestToldWithRoomAgain(t *testing.T) {
	for name, sends := range map[string][]byte{"reads": nil, "has sent something": {0}} {
		t.Run(name, func(t *testing.T) {
			h := &handed{shared.get(t), make(chan func(*wire.LeaseEvent), 1), make(chan chan struct{})}
			srv, err := loop.New(h, loop.Options{Log: quiet, Loops: 1, Outbound: 64 << 10})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = srv.Close() })
			addr, err := srv.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s := &server{Server: srv}
			p, q := telling(t, addr, &wire.Hello{}), join(t, addr)
			tell := <-h.tell
			e := wire.LeaseEvent{Kind: wire.EventKilled, Owner: strings.Repeat("o", 1000), Namespace: "h:/a"}
			for s.LeftOut() == 0 { // what a connection takes that is on its loop has room
				for range 100 {
					tell(&e)
				}
			}
			q.start(&wire.Request{Op: wire.OpTopology})
			on := <-h.stand
			if p.send(sends); len(sends) > 0 {
				eventually(t, "what it sent is there", func() bool { return s.Coming() > 0 })
			}
			// Most of it is read before the loop goes on; a machine that is slow leaves some for after that.
			time.AfterFunc(300*time.Millisecond, func() { close(on) })
			for p.push(wire.PushLease).lease.Kind != 0 {
			}
			tell(&e)
			if got := p.push(wire.PushLease).lease; got.Kind != wire.EventKilled {
				t.Errorf("told %v", got.Kind)
			}
		})
	}
}

// TestToldTooMuchAtOnce: what is told faster than the loop takes it is left out, and the client told so, each time.
func TestToldTooMuchAtOnce(t *testing.T) {
	h := &handed{shared.get(t), make(chan func(*wire.LeaseEvent), 1), make(chan chan struct{})}
	srv, err := loop.New(h, loop.Options{Log: quiet, Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	addr, err := srv.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p, q := telling(t, addr, &wire.Hello{}), join(t, addr)
	tell := <-h.tell
	e := wire.LeaseEvent{Kind: wire.EventKilled, Owner: strings.Repeat("o", 1000), Namespace: "h:/a"}
	for range 3 {
		const many = 3000
		q.start(&wire.Request{Op: wire.OpTopology})
		on := <-h.stand
		for range many {
			tell(&e)
		}
		close(on)
		told := 0
		for p.push(wire.PushLease).lease.Kind != 0 {
			told++
		}
		if p.untold(); told == 0 || told > many/2 {
			t.Errorf("told %d of %d, and then that this was not all", told, many)
		}
	}
}
