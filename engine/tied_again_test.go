package engine

import (
	"fmt"
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestTiedAgainOnTheSameConnection: a client that waits with flag 8 is told that nobody knows what became of it, as its
// log had no leader; its wait has its grace to be asked again, and is granted within that. The connection stands. The
// client renews on it with flag 8, and so ties the lease to it; later it crashes. The lease ends after the grace
// (PROTOCOL.md, leases that follow the connection), and does not stay for the whole of its TTL.
func TestTiedAgainOnTheSameConnection(t *testing.T) {
	g := newGraces(t)
	g.do(1, 2, 1, -1, takes("other", "h:/a/x"))
	wait := takes("o", "h:/a/x")
	wait.Flags = wire.FlagWait
	g.do(2, 1, 1, 1000, wait)
	g.do(3, 1, 1, -1, &wire.Request{Op: wire.OpCancelWait, Target: 2, GraceMillis: 1000})
	g.do(4, 2, 1, -1, &wire.Request{Op: wire.OpRelease, Owner: "other",
		Releases: []wire.ReleaseRequest{{Path: "h:/a/x"}}})
	g.do(5, 1, 1, 1000, &wire.Request{Op: wire.OpRenew, Owner: "o", TTLMillis: hourMillis})
	g.ends(5 + hourMillis)
	g.detach(6, 1, 1)
	g.ends(6 + 1000)
}

// TestARepeatKeepsTheTie: a session has tied the lease of o on connection 1 (flag 8). It takes y without flag 8, its
// connection breaks, and it asks for y again on connection 2: by section 3 an acquire on the new connection keeps the
// lease, also without flag 8, whether the old end comes before or after.
func TestARepeatKeepsTheTie(t *testing.T) {
	for _, heard := range []bool{true, false} { // the first asking was carried out
		for _, endFirst := range []bool{false, true} {
			t.Run(fmt.Sprintf("carried out before %v, end first %v", heard, endFirst), func(t *testing.T) {
				g := newGraces(t)
				g.do(1, 1, 1, 1000, takes("o", "h:/a/x"))
				ask := func(now int64, epoch uint64) *Command {
					return &Command{NS: "h:/a", Caller: Caller{Session: Session{1}, ID: 77}, Epoch: epoch,
						Req: takes("o", "h:/a/y")}
				}
				var first wire.Result
				if heard {
					first = g.s.Apply(Clock{Now: 2}, ask(2, 1), new(Output))
				}
				if endFirst {
					g.detach(5, 1, 1)
				}
				var res wire.Result
				if heard {
					res = g.s.Repeat(Clock{Now: 6}, ask(6, 2), &first, new(Output))
				} else {
					res = g.s.Apply(Clock{Now: 6}, ask(6, 2), new(Output))
				}
				if res.Status != wire.StatusOK {
					t.Fatal(res.Status)
				}
				if !endFirst {
					g.detach(7, 1, 1)
				}
				if l := g.s.leases.Get(g.s.leaseKey("o", "h:/a")); l.deadline < hourMillis || l.bind.epoch != 2 {
					t.Errorf("connection 2 stands, lease lasts until %d, tied to connection %d", l.deadline,
						l.bind.epoch)
				}
			})
		}
	}
}
