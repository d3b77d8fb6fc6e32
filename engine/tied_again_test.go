package engine

import (
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
	g.do(4, 2, 1, -1, &wire.Request{Op: wire.OpRelease, Owner: "other", Releases: []wire.ReleaseRequest{{Path: "h:/a/x"}}})
	g.do(5, 1, 1, 1000, &wire.Request{Op: wire.OpRenew, Owner: "o", TTLMillis: hourMillis})
	g.ends(5 + hourMillis)
	g.detach(6, 1, 1)
	g.ends(6 + 1000)
}
