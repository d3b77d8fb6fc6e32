package engine

import (
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRevokedAgainAtOnce: who has tied a lease is told that its owner is asked to let go, also when somebody else was
// told so in the same instant, before it tied it; and what else was taken meanwhile is named.
func TestRevokedAgainAtOnce(t *testing.T) {
	revoke := &wire.Request{Op: wire.OpRequestRevoke, Owner: "o"}
	t.Run("another session", func(t *testing.T) {
		g := newTelling(t)
		g.do(1, 2, 500, takes("o", "h:/a/x"))
		g.do(3, 2, -1, revoke)
		g.says("1 REVOKE o h:/a [1.2]")
		g.now-- // one entry, or one millisecond
		g.do(2, 2, 500, takes("o", "h:/a/y"))
		g.now--
		g.do(3, 3, -1, revoke)
		g.says("2 REVOKE o h:/a [1.2 2.2]", "1 REVOKE o h:/a [1.2 2.2]")
		g.now--
		g.do(3, 4, -1, revoke)
		g.says()
	})
	t.Run("another acquire", func(t *testing.T) {
		g := newTelling(t)
		g.do(1, 2, 500, takes("o", "h:/a/x"))
		g.do(3, 2, -1, revoke)
		g.now--
		g.do(1, 3, 500, takes("o", "h:/a/y"))
		g.now--
		g.do(3, 3, -1, revoke)
		g.says("1 REVOKE o h:/a [1.2 1.3]")
	})
}
