package loop_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// telling is a connection that asks to be told of its leases.
func telling(t testing.TB, addr net.Addr, h *wire.Hello) *peer {
	t.Helper()
	h.Features |= wire.FeatureLeases
	p := joinAs(t, addr, h)
	if p.welcome.Features&wire.FeatureLeases == 0 {
		t.Fatal("the server does not tell of leases")
	}
	return p
}

// tied takes a path with a lease that is tied to the connection, and answers the acquire's mark.
func (p *peer) tied(owner, path string) uint64 {
	p.t.Helper()
	p.must(flagged(write(owner, path), wire.FlagBind))
	return wire.AcquireMark([wire.SessionBytes]byte(p.welcome.Session), p.last)
}

// told waits for what the server says of a lease.
func (p *peer) told(kind wire.EventKind, owner, ns string, marks ...uint64) {
	p.t.Helper()
	e := p.push(wire.PushLease).lease
	if e.Kind != kind || e.Owner != owner || e.Namespace != ns || !slices.Equal(e.Acquires, marks) {
		p.t.Errorf("told %+v, want %v of %s in %s by %d", e, kind, owner, ns, marks)
	}
}

// untold fails if the server has said something of a lease.
func (p *peer) untold() {
	p.t.Helper()
	p.must(ping())
	for _, got := range p.pushes {
		if got.kind == wire.PushLease {
			p.t.Errorf("told %+v", got.lease)
		}
	}
}

// TestToldOfLeases: a client that asked for it hears what happens to a lease that flag 8 or a bind has tied, without a
// subscription; also when it took a path again meanwhile, on the next connection of its session, and on one that took
// that over. Who did not ask hears nothing, and neither does the earlier connection.
func TestToldOfLeases(t *testing.T) {
	both(t, loop.Options{}, func(t *testing.T, addr net.Addr) {
		ns := named("told")
		other, deaf := join(t, addr), join(t, addr)
		kill := func(owner string) { other.must(&wire.Request{Op: wire.OpForceRelease, Owner: owner}) }
		p := telling(t, addr, &wire.Hello{Grace: uint64(time.Hour.Milliseconds())})

		mark := p.tied(ns, ns+":/n/x")
		other.must(&wire.Request{Op: wire.OpRequestRevoke, Owner: ns})
		p.told(wire.EventRevoke, ns, ns+":/n", mark)
		kill(ns)
		p.told(wire.EventKilled, ns, ns+":/n", mark)
		again := p.tied(ns, ns+":/n/x")
		if again == mark {
			t.Error("two acquires have one mark")
		}
		brief := flagged(write(ns+"brief", ns+":/brief/x"), wire.FlagBind)
		brief.TTLMillis = 1
		p.must(brief)
		p.told(wire.EventExpired, ns+"brief", ns+":/brief",
			wire.AcquireMark([wire.SessionBytes]byte(p.welcome.Session), p.last))

		if res := p.ask(&wire.Request{Op: wire.OpBind, Owner: ns + "bound", GraceMillis: 1000}); res.Code != wire.OK {
			t.Fatal(res.Err())
		}
		p.must(write(ns+"bound", ns+":/bound/x"))
		bound := wire.AcquireMark([wire.SessionBytes]byte(p.welcome.Session), p.last)
		kill(ns + "bound")
		p.told(wire.EventKilled, ns+"bound", ns+":/bound", bound)

		deaf.tied(ns+"deaf", ns+":/deaf/x")
		kill(ns + "deaf")
		deaf.untold()

		next := &wire.Hello{Session: p.welcome.Session, Epoch: 2, Grace: uint64(time.Hour.Milliseconds())}
		p.hangUp()
		p = telling(t, addr, next)
		p.last = 1000
		other.must(&wire.Request{Op: wire.OpRequestRevoke, Owner: ns})
		p.told(wire.EventRevoke, ns, ns+":/n", again)

		over := *next
		over.Epoch = 3
		q := telling(t, addr, &over)
		p.endedWith(wire.Aborted, "later connection")
		kill(ns)
		q.told(wire.EventKilled, ns, ns+":/n", again)
		q.untold()
	})
}

// tellers is a handler that counts who is told.
type tellers struct {
	wire.Handler
	n atomic.Int32
}

func (h *tellers) Tell(id [wire.SessionBytes]byte, tell func(*wire.LeaseEvent)) (stop func()) {
	h.n.Add(1)
	end := h.Handler.Tell(id, tell)
	return func() {
		h.n.Add(-1)
		end()
	}
}

// TestToldNoMore: nobody is told any more whose connection is gone.
func TestToldNoMore(t *testing.T) {
	h := &tellers{Handler: shared.get(t)}
	srv, err := loop.New(h, loop.Options{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	addr, err := srv.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	join(t, addr)
	p := telling(t, addr, &wire.Hello{})
	telling(t, addr, &wire.Hello{Session: p.welcome.Session, Epoch: 2}).hangUp()
	telling(t, addr, &wire.Hello{})
	eventually(t, "the connection that stands alone is told", func() bool { return h.n.Load() == 1 })
}

// TestToldTooMuch: a client that reads nothing while all its leases end is told, once it reads, that it was not told
// all; its connection stands, and what comes then it is told. (Over TCP more fits between the two than the leases
// take.)
func TestToldTooMuch(t *testing.T) {
	const many = 1500
	s := serve(t, loop.Options{Outbound: 64 << 10})
	ns := named("much")
	p, other := telling(t, s.unix, &wire.Hello{}), join(t, s.unix)
	long := ns + strings.Repeat("o", 1000)
	for from := 0; from < many; from += 100 {
		var reqs []*wire.Request
		for i := range 100 {
			reqs = append(reqs, flagged(write(fmt.Sprint(long, from+i), fmt.Sprintf("%s:/n/%d", ns, from+i)),
				wire.FlagBind))
		}
		for _, id := range p.start(reqs...) {
			p.reply(id)
		}
	}
	other.must(&wire.Request{Op: wire.OpSetPolicy, Namespace: ns + ":/n", Algorithm: wire.PointRW})
	eventually(t, "it leaves something unread", func() bool { return s.Lanes() == 1 })
	told := make(map[string]bool)
	for e := p.push(wire.PushLease).lease; e.Kind != 0; e = p.push(wire.PushLease).lease {
		if e.Kind != wire.EventKilled || told[e.Owner] || !strings.HasPrefix(e.Owner, long) {
			t.Fatalf("told %+v", e)
		}
		told[e.Owner] = true
	}
	if len(told) == 0 || len(told) == many {
		t.Errorf("told of %d leases before it was told that this was not all", len(told))
	}
	mark := p.tied(ns, ns+":/n/x")
	other.must(&wire.Request{Op: wire.OpForceRelease, Owner: ns})
	for {
		if e := p.push(wire.PushLease).lease; e.Owner == ns {
			if e.Kind != wire.EventKilled || !slices.Equal(e.Acquires, []uint64{mark}) {
				t.Errorf("told %+v", e)
			}
			return
		}
	}
}
