package engine

import (
	"fmt"
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// bothGraces are a state where the step that closes a connection sees to all that hangs on it, and one where it
// sees to one thing.
func bothGraces(t *testing.T, f func(t *testing.T, g *graces)) {
	t.Run("at once", func(t *testing.T) { f(t, newGraces(t)) })
	t.Run("in small steps", func(t *testing.T) { f(t, slowGraces(t)) })
}

// settles lets all that is due come to an end.
func (g *graces) settles(now int64) {
	for due, ok := g.s.NextDeadline(); ok && due <= now; due, ok = g.s.NextDeadline() {
		g.s.Expire(Clock{Now: now}, new(Output))
	}
}

// renews has a session renew what o has, without a tie.
func (g *graces) renews(now int64, id byte, epoch uint64) {
	g.t.Helper()
	g.do(now, id, epoch, -1, &wire.Request{Op: wire.OpRenew, Owner: "o", TTLMillis: hourMillis})
}

// TestOrderOfEnds: of two sessions that have tied a lease the first to end is 2, which has more, and the last is 1.
// Session 1 comes back on its next connection, keeps the lease by a plain renewal, and dies: the lease ends after the
// grace. So it does when the end of 2 has not come to the lease as that of 1 arrives.
func TestOrderOfEnds(t *testing.T) {
	bothGraces(t, func(t *testing.T, g *graces) {
		g.do(1, 2, 1, 1000, takes("a", "h:/a/w")) // what the step that ends 2 sees to
		g.do(2, 2, 1, 1000, takes("o", "h:/a/x"))
		g.do(3, 1, 1, 1000, takes("o", "h:/a/x"))
		g.detach(5, 2, 1)
		g.detach(6, 1, 1)
		g.settles(6)
		g.ends(6 + 1000)
		if l := g.s.leases.Get(g.s.leaseKey("o", "h:/a")); l.bind.session != (Session{1}) || len(l.also) > 0 {
			t.Errorf("the tie that is left is of session %d", l.bind.session[0])
		}
		g.renews(7, 1, 2)
		g.detach(8, 1, 2)
		g.settles(8)
		g.ends(8 + 1000)
	})
}

// TestEndsMetByACommand: the same when a command of a third one comes to the lease before either end has, and these
// are of connections that ended at different times.
func TestEndsMetByACommand(t *testing.T) {
	bothGraces(t, func(t *testing.T, g *graces) {
		for id := range byte(2) {
			g.do(1, id+1, 1, 1000, takes("a", "h:/a/w"))
			g.do(1, id+1, 1, 1000, takes("b", "h:/a/v"))
			g.do(2, id+1, 1, 1000, takes("o", "h:/a/x"))
		}
		g.detach(5, 2, 1)
		g.detach(6, 1, 1)
		g.do(7, 3, 1, -1, &wire.Request{Op: wire.OpRequestRevoke, Owner: "o"})
		g.ends(6 + 1000)
		l := g.s.leases.Get(g.s.leaseKey("o", "h:/a"))
		if want := []pledge{{session: Session{2}, until: 1005},
			{session: Session{1}, until: 1006}}; len(l.pledges) != 2 ||
			l.pledges[0].session != want[0].session || l.pledges[0].until != want[0].until ||
			l.pledges[1].session != want[1].session || l.pledges[1].until != want[1].until {
			t.Errorf("pledged is %+v", l.pledges)
		}
	})
}

// TestCameAndWentAgain: a client comes back for one of its owners, and goes again, before the end of its first
// connection has come to the others. Their grace counts from that end.
func TestCameAndWentAgain(t *testing.T) {
	bothGraces(t, func(t *testing.T, g *graces) {
		g.do(1, 1, 1, 1000, takes("a", "h:/a/w"))
		g.do(2, 1, 1, 1000, takes("o", "h:/a/x"))
		g.detach(5, 1, 1)
		g.do(100, 1, 2, 1000, takes("a", "h:/a/w"))
		g.detach(200, 1, 2)
		g.settles(200)
		g.ends(5 + 1000)
	})
}

// TestDeparturesOfOne: a client that comes and goes while the ends of its connections are carried out leaves no
// more of them than are kept apart. Its leases end as they do with the first of them.
func TestDeparturesOfOne(t *testing.T) {
	g := slowGraces(t)
	g.do(1, 1, 1, 1000, takes("o", "h:/a/x"))
	for i := range 200 {
		g.do(2, 1, 1, 1000, takes(fmt.Sprintf("a%03d", i), fmt.Sprintf("h:/a/a%03d", i)))
	}
	for i := range int64(maxDepartures + 20) {
		g.detach(5+i, 1, uint64(i)+1)
		if n := g.s.departing.Sum().Count[classWait]; n > maxDepartures || i < maxDepartures && n != uint32(i)+1 {
			t.Fatalf("%d are kept after %d", n, i+1)
		}
	}
	g.settles(100)
	if g.ends(5 + 1000); !g.s.departing.Empty() {
		t.Error("they are not over")
	}
}

// TestCameBackBesideAnother: a session loses its connection, comes back within its grace and keeps its lease by a plain
// renewal, or by taking something more. Its ties hang on its new connection, and as long as that stands the lease is
// not shortened, whoever else tied it and goes.
func TestCameBackBesideAnother(t *testing.T) {
	keeps := map[string]func(g *graces, now int64){
		"renews": func(g *graces, now int64) { g.renews(now, 1, 2) },
		"takes":  func(g *graces, now int64) { g.do(now, 1, 2, -1, takes("o", "h:/a/z")) },
		"waits": func(g *graces, now int64) {
			g.do(now, 9, 1, -1, takes("other", "h:/a/z"))
			g.do(now, 1, 2, -1, waitsOn("o", "h:/a/z"))
			back := []wire.ReleaseRequest{{Path: "h:/a/z"}}
			g.do(now, 9, 1, -1, &wire.Request{Op: wire.OpRelease, Owner: "other", Releases: back})
		},
	}
	others := map[string]struct{ before, after bool }{
		"nobody": {}, "one before it went": {before: true}, "one after it came back": {after: true},
	}
	for how, keep := range keeps {
		for who, other := range others {
			t.Run(how+", and "+who, func(t *testing.T) {
				bothGraces(t, func(t *testing.T, g *graces) {
					g.do(1, 1, 1, 1000, takes("a", "h:/a/w"))
					g.do(1, 1, 1, 1000, takes("o", "h:/a/x"))
					if other.before {
						g.do(2, 2, 1, 1000, takes("o", "h:/a/y"))
					}
					g.detach(5, 1, 1)
					keep(g, 6)
					until := int64(6 + hourMillis)
					if other.after {
						until++
						g.do(7, 2, 1, 1000, takes("o", "h:/a/y"))
					}
					g.detach(8, 2, 1)
					g.settles(8)
					g.ends(until)
					g.detach(8, 1, 1) // told once more
					g.settles(8)
					g.ends(until)
					g.detach(9, 1, 2)
					g.settles(9)
					g.ends(9 + 1000)
				})
			})
		}
	}
}

// TestCameBackTooLateToStay: the same where nobody else had tied the lease, and somebody renewed it meanwhile: it ends
// with the connection of who ties it then.
func TestCameBackTooLateToStay(t *testing.T) {
	g := newGraces(t)
	g.do(1, 1, 1, 1000, takes("o", "h:/a/x"))
	g.detach(5, 1, 1)
	g.renews(6, 3, 1)
	g.renews(1005, 1, 2)
	g.do(1006, 2, 1, 1000, takes("o", "h:/a/y"))
	g.detach(1007, 2, 1)
	g.ends(1007 + 1000)
}

// TestCameBackTooLate: who comes back when its grace is over, or has unbound its owner since, has tied nothing.
func TestCameBackTooLate(t *testing.T) {
	for name, c := range map[string]struct {
		now    int64
		unbind bool
	}{"too late": {now: 1005}, "unbound": {now: 7, unbind: true}} {
		t.Run(name, func(t *testing.T) {
			g := newGraces(t)
			g.do(1, 1, 1, 1000, takes("o", "h:/a/x"))
			g.do(2, 2, 1, 2000, takes("o", "h:/a/y"))
			g.detach(5, 1, 1)
			if c.unbind {
				g.do(6, 1, 2, -1, &wire.Request{Op: wire.OpUnbind, Owner: "o"})
			}
			g.renews(c.now, 1, 2)
			g.detach(c.now+1, 2, 1)
			g.ends(c.now + 1 + 2000)
		})
	}
}
