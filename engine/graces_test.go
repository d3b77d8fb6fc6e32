package engine

import (
	"fmt"
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

const hourMillis = 3_600_000

// graces is a state in which several sessions use the owner o. It is loaded anew after each step.
type graces struct {
	t    *testing.T
	s    *State
	slow bool // the step that closes a connection sees to one thing that hangs on it
}

func newGraces(t *testing.T) *graces { return &graces{t: t, s: New(DefaultConfig(), nil, nil)} }

func (g *graces) config() Config {
	c := DefaultConfig()
	if g.slow {
		c.DepartAtOnce = 1
	}
	return c
}

// do has a session ask something on a connection; with a grace below 0 it ties nothing.
func (g *graces) do(now int64, id byte, epoch uint64, grace int64, req *wire.Request) wire.Result {
	g.t.Helper()
	cmd := &Command{NS: "h:/a", Caller: Caller{Session: Session{id}, ID: uint64(now)}, Epoch: epoch, Bound: grace >= 0,
		Grace: max(grace, 0), Req: req}
	res := g.s.Apply(Clock{Now: now}, cmd, new(Output))
	if err := res.Err(); err != nil {
		g.t.Fatal(err)
	}
	again := New(g.config(), nil, nil)
	err := g.s.View().Rows(0, func(row, val []byte) error { return again.Load(row, val) })
	if err == nil {
		err = again.Loaded()
	}
	if err != nil || again.View().Digest() != g.s.View().Digest() {
		g.t.Fatalf("loaded anew it is another: %v", err)
	}
	g.s = again
	return res
}

// detach ends a session's connection.
func (g *graces) detach(now int64, id byte, epoch uint64) {
	g.t.Helper()
	g.do(now, id, epoch, -1, &wire.Request{Op: wire.OpDetach})
}

// ends holds that the lease of o lasts until then, and no longer.
func (g *graces) ends(until int64) {
	g.t.Helper()
	if l := g.s.leases.Get(g.s.leaseKey("o", "h:/a")); !l.held() || l.deadline != until {
		g.t.Errorf("the lease lasts until %d, want %d", l.deadline, until)
	}
}

// takes is an acquire of a path for an hour.
func takes(owner, path string) *wire.Request {
	return &wire.Request{Op: wire.OpAcquire, Owner: owner, TTLMillis: hourMillis,
		Locks: []wire.LockRequest{{Path: path}}}
}

// TestGracesOfTwoSessions: the grace of an earlier connection does not count, when its session came back
// and ended with a shorter one, whatever other sessions did between; that of one that did not come back does.
func TestGracesOfTwoSessions(t *testing.T) {
	for _, c := range []struct {
		name  string
		back  []byte // the sessions that come back, with a grace of a second
		until int64
	}{
		{"both came back", []byte{1, 2}, 4001},
		{"the one with the long grace", []byte{1}, 4000},
		{"the one with the short grace", []byte{2}, 1000 + hourMillis/2},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGraces(t)
			g.do(1, 1, 1, hourMillis/2, takes("o", "h:/a/x"))
			g.do(2, 2, 1, 1000, takes("o", "h:/a/x"))
			g.detach(1000, 1, 1) // half an hour to come back in
			g.detach(1001, 2, 1) // a second
			for i, id := range c.back {
				g.do(1500+int64(i), id, 2, 1000, &wire.Request{Op: wire.OpRenew, Owner: "o", TTLMillis: hourMillis})
			}
			for _, id := range c.back {
				g.detach(2999+int64(id), id, 2)
			}
			g.ends(c.until)
		})
	}
}

// TestGracesOfACrowd: of more sessions than a lease keeps apart none loses it within its grace, and
// graces that are over are not kept.
func TestGracesOfACrowd(t *testing.T) {
	g := newGraces(t)
	const crowd, first = 3 * maxTies, 60_000
	g.do(1, 200, 1, 1000, takes("o", "h:/a/x")) // whose connection stands meanwhile
	for i := range int64(crowd) {
		id, grace := byte(i+1), int64(5000)
		if i == 0 {
			grace = first
		}
		g.do(10*i+2, id, 1, grace, takes("o", "h:/a/x"))
		g.detach(10*i+3, id, 1)
	}
	if l := g.s.leases.Get(g.s.leaseKey("o", "h:/a")); len(l.pledges) != maxTies {
		t.Errorf("%d pledges are kept", 0)
	}
	g.detach(10_000, 200, 1)
	g.ends(3 + first)
	if l := g.s.leases.Get(g.s.leaseKey("o", "h:/a")); len(l.pledges) != 2 {
		t.Errorf("%d pledges are kept", 0)
	}
}

// TestGraceOfAGrant: what a place brings whose connection has ended lasts for the grace, also when another
// session of the owner ties the lease before or after that, and goes: its client may still come back.
func TestGraceOfAGrant(t *testing.T) {
	for _, wait := range []bool{false, true} {
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprintf("open %v, tied before %v", wait, before), func(t *testing.T) {
				g := newGraces(t)
				tie := func(now int64) { g.do(now, 2, 1, 1000, takes("o", "h:/a/y")) }
				g.do(1, 9, 1, -1, takes("holder", "h:/a/x"))
				waits := takes("o", "h:/a/x")
				waits.QueueTTLMillis = hourMillis
				if wait {
					waits.Flags = wire.FlagWait
				}
				if before {
					tie(2)
				}
				if res := g.do(3, 1, 1, 60_000, waits); res.Status != wire.StatusQueued {
					t.Fatalf("%+v", res)
				}
				if wait { // a minute to come back in
					g.do(1000, 1, 1, -1, &wire.Request{Op: wire.OpCancelWait, Target: 3, GraceMillis: 60_000})
				}
				g.detach(1000, 1, 1)
				g.do(1001, 9, 1, -1, &wire.Request{Op: wire.OpRelease, Owner: "holder",
					Releases: []wire.ReleaseRequest{{Path: "h:/a/x"}}})
				if !before {
					tie(1002)
				}
				g.detach(1003, 2, 1)
				g.ends(61_001)
			})
		}
	}
}
