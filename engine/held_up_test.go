package engine

import (
	"fmt"
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestHeldUpThenAskedAgain: a client went from connection 1 to 2, which died: its end is heard, and has not come to all of its many leases. Then an
// acquire that was held up on connection 1 is carried out (TestEarlierEndBehindLater), and the client asks for the same
// again on connection 3, which stands.
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
					return &Command{NS: "h:/a", Caller: Caller{Session: Session{1}, ID: 77}, Epoch: epoch, Bound: true, Grace: 10, Req: req}
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
					g.do(17, 9, 1, -1, &wire.Request{Op: wire.OpRelease, Owner: "h", Releases: []wire.ReleaseRequest{{Path: "h:/a/o"}}})
					if got := g.s.View().Inspect("h:/a", "h:/a/o").Owner; got != "z" {
						t.Errorf("%q is granted the path: who came first lost its place, position %d", got, res.Position)
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

// TestEarlierEndOfALateOwner: as TestEarlierEndBehindLater, with an owner whose lease key comes after what the departure saw to.
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

// TestHeldUpWithoutAGrace: an acquire that was held up on an earlier connection, without a grace, does not end with the later one that ended before.
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
		g.do(6, 9, 1, -1, &wire.Request{Op: wire.OpRelease, Owner: "h", Releases: []wire.ReleaseRequest{{Path: "h:/a/o"}}})
		if _, locks := g.s.View().List("z", nil); len(locks) != 1 {
			t.Error("the wait was passed over")
		}
	})
}
