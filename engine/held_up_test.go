package engine

import (
	"fmt"
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestHeldUpThenAskedAgain: a client went from connection 1 to 2, which died: its end is heard, and has not come to all
// of its many leases. Then an acquire that was held up on connection 1 is carried out (TestEarlierEndBehindLater), and
// the client asks for the same again on connection 3, which stands.
func TestHeldUpThenAskedAgain(t *testing.T) {
	for _, many := range []int{1, 200} {
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d leases, waits %v", many, waits), func(t *testing.T) {
				g := newGraces(t) // the config as it is: DepartAtOnce 64
				for i := range many {
					g.do(1, 1, 2, 10, takes(fmt.Sprintf("a%03d", i), fmt.Sprintf("h:/a/a%03d", i)))
				}
				req := takes("z", "h:/a/o")
				if waits {
					g.do(2, 9, 1, -1, takes("h", "h:/a/o"))
					req = waitsOn("z", "h:/a/o")
				}
				ask := func(epoch uint64) *Command {
					return &Command{NS: "h:/a", Caller: Caller{Session: Session{1}, ID: 77}, Epoch: epoch, Bound: true,
						Grace: 10, Req: req}
				}
				g.detach(5, 1, 2)
				first := g.s.Apply(Clock{Now: 14}, ask(1), new(Output)) // held up
				if waits {
					g.do(15, 8, 1, -1, waitsOn("behind", "h:/a/o"))
				}
				var res wire.Result
				if waits {
					var ok bool
					var out Output
					if res, ok = g.s.Waiting(Clock{Now: 16}, ask(3), &out); !ok {
						t.Logf("its place is over: %+v", out.Answers)
						res = g.s.Apply(Clock{Now: 16}, ask(3), &out)
					}
					g.do(17, 9, 1, -1, &wire.Request{Op: wire.OpRelease, Owner: "h",
						Releases: []wire.ReleaseRequest{{Path: "h:/a/o"}}})
					if got := g.s.View().Inspect("h:/a", "h:/a/o").Owner; got != "z" {
						t.Errorf("%q is granted the path: who came first lost its place, position %d", got,
							res.Position)
					}
					return
				}
				if res = g.s.Repeat(Clock{Now: 16}, ask(3), &first, new(Output)); res.Status != wire.StatusOK {
					t.Errorf("asked again on connection 3, 2 ms after it was answered %v: %v", first.Status, res.Status)
				}
			})
		}
	}
}

// TestEarlierEndOfALateOwner: as TestEarlierEndBehindLater, with an owner whose lease key comes after what the
// departure saw to.
func TestEarlierEndOfALateOwner(t *testing.T) {
	for _, o := range []string{"a", "z"} {
		t.Run(o, func(t *testing.T) {
			bothGraces(t, func(t *testing.T, g *graces) {
				g.do(1, 1, 1, 1000, takes("p", "h:/a/p"))
				g.do(2, 1, 1, 1000, takes("q", "h:/a/q"))
				g.detach(5, 1, 2)
				g.do(6, 1, 1, 1000, takes(o, "h:/a/o"))
				g.detach(7, 1, 1)
				g.settles(7)
				if l := g.s.leases.Get(g.s.leaseKey(o, "h:/a")); l.deadline != 1007 {
					t.Errorf("lease of %s lasts until %d, want 1007", o, l.deadline)
				}
			})
		})
	}
}

// TestHeldUpWithoutAGrace: an acquire that was held up on an earlier connection, without a grace, does not end with the
// later one that ended before.
func TestHeldUpWithoutAGrace(t *testing.T) {
	bothGraces(t, func(t *testing.T, g *graces) {
		for i := range 200 {
			g.do(1, 1, 1, 0, takes(fmt.Sprintf("a%03d", i), fmt.Sprintf("h:/a/a%03d", i)))
		}
		g.detach(5, 1, 2)
		res := g.do(6, 1, 1, 0, takes("z", "h:/a/o"))
		if res.Status != wire.StatusOK {
			t.Fatal(res)
		}
		g.settles(6)
		if res := g.do(7, 9, 1, -1, takes("thief", "h:/a/o")); res.Status == wire.StatusOK {
			t.Errorf("another got it, while the first one's connection stands")
		}
	})
}

// TestAWaitThatWasHeldUp: nor does a wait, which gets what it waits for.
func TestAWaitThatWasHeldUp(t *testing.T) {
	bothGraces(t, func(t *testing.T, g *graces) {
		g.do(1, 9, 1, -1, takes("h", "h:/a/o"))
		for i := range 200 {
			g.do(1, 1, 1, 0, takes(fmt.Sprintf("a%03d", i), fmt.Sprintf("h:/a/a%03d", i)))
		}
		g.detach(5, 1, 2)
		g.do(6, 1, 1, 0, waitsOn("z", "h:/a/o"))
		g.do(6, 9, 1, -1, &wire.Request{Op: wire.OpRelease, Owner: "h",
			Releases: []wire.ReleaseRequest{{Path: "h:/a/o"}}})
		if _, locks := g.s.View().List("z", nil); len(locks) != 1 {
			t.Error("the wait was passed over")
		}
	})
}

// TestHeldUpRenewalOutlivesBothEnds: a client tied the lease on connection `tied`, went from 1 to 2 and died. The
// end of 2 is heard; then a renewal (or acquire) that was held up on 1 is carried out, and then the end of 1 is heard.
// All connections of the session have ended: the lease must end after the grace, not after its TTL.
func TestHeldUpRenewalOutlivesBothEnds(t *testing.T) {
	for _, tied := range []uint64{1, 2} {
		for _, flag := range []bool{false, true} {
			for _, op := range []string{"renew", "acquire", "acquire another"} {
				t.Run(fmt.Sprintf("tied on %d, flag 8 %v, %s", tied, flag, op), func(t *testing.T) {
					bothGraces(t, func(t *testing.T, g *graces) {
						g.do(1, 1, tied, 1000, takes("o", "h:/a/o"))
						g.detach(5, 1, 2)
						grace := int64(-1)
						if flag {
							grace = 1000
						}
						req := takes("o", "h:/a/o")
						switch op {
						case "renew":
							req = &wire.Request{Op: wire.OpRenew, Owner: "o", TTLMillis: hourMillis}
						case "acquire another":
							req = takes("o", "h:/a/p")
						}
						g.do(6, 1, 1, grace, req)
						g.detach(7, 1, 1)
						g.settles(7)
						if l := g.s.leases.Get(g.s.leaseKey("o", "h:/a")); l.held() && l.deadline > 7+1000 {
							t.Errorf("both connections ended at 5 and 7, grace 1000: the lease lasts until %d",
								l.deadline)
						}
					})
				})
			}
		}
	}
}

// TestHeldUpBindOverALaterWait: a bind was held up on connection 1; the client is on 2 and waits there, tied to 2. The
// bind is carried out, the wait is granted and answered on 2, then the end of 1 is heard: 2 stands.
func TestHeldUpBindOverALaterWait(t *testing.T) {
	bothGraces(t, func(t *testing.T, g *graces) {
		g.do(1, 9, 1, -1, takes("h", "h:/a/o"))
		g.do(2, 1, 2, 1000, waitsOn("z", "h:/a/o"))
		g.s.Apply(Clock{Now: 3}, &Command{Caller: Caller{Session: Session{1}, ID: 3}, Epoch: 1,
			Bound: true, Grace: 1000,
			Req: &wire.Request{Op: wire.OpBind, Owner: "z"}}, new(Output))
		g.do(4, 9, 1, -1, &wire.Request{Op: wire.OpRelease, Owner: "h",
			Releases: []wire.ReleaseRequest{{Path: "h:/a/o"}}})
		g.detach(5, 1, 1)
		g.settles(5)
		if l := g.s.leases.Get(g.s.leaseKey("z", "h:/a")); !l.held() || l.deadline < hourMillis {
			t.Errorf("connection 2 stands, the lease lasts until %d", l.deadline)
		}
	})
}

// TestAskedAgainBehindDeparture: a node asks again for a wait of connection 1 after the end of 2 was heard. How long it
// may wait then must not depend on how far the departure of 2 has come.
func TestAskedAgainBehindDeparture(t *testing.T) {
	var got [2]int64
	for i, slow := range []bool{false, true} {
		cfg := DefaultConfig()
		if slow {
			cfg.DepartAtOnce = 1
		}
		s := New(cfg, nil, nil)
		do := func(now int64, id byte, n, epoch uint64, grace int64, req *wire.Request) *Command {
			cmd := &Command{NS: "h:/a", Caller: Caller{Session: Session{id}, ID: n}, Epoch: epoch, Bound: grace >= 0,
				Grace: max(grace, 0), Req: req}
			if res := s.Apply(Clock{Now: now}, cmd, new(Output)); res.Err() != nil {
				t.Fatal(res.Err())
			}
			return cmd
		}
		do(1, 9, 1, 1, -1, takes("h", "h:/a/o"))
		do(2, 1, 2, 1, 500, waitsOn("y", "h:/a/o"))
		req := waitsOn("z", "h:/a/o")
		req.QueueTTLMillis = 1000
		cmd := do(3, 1, 3, 1, 500, req)
		do(600, 1, 0, 2, -1, &wire.Request{Op: wire.OpDetach})
		if _, ok := s.Waiting(Clock{Now: 700}, cmd, new(Output)); !ok {
			t.Fatal("no place")
		}
		s.Expire(Clock{Now: 700}, new(Output))
		got[i] = s.waiter(s.callOf(cmd.Caller)).deadline
	}
	if got[0] != got[1] {
		t.Errorf("it may wait until %d if the departure came to it, %d if not", got[0], got[1])
	}
}
