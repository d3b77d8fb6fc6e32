package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv2AnotherUnderTheIDOfAWait: while a wait is open, another request comes under its id on
// the session's next connection: it is refused, and not answered with what the first waits for.
func TestAdv2AnotherUnderTheIDOfAWait(t *testing.T) {
	b := newBare(t, firstLogShard, defaultLimits())
	holder, s := bareSession(1), bareSession(2)
	b.one(bareAsk(holder, 1, write("holder", "h:/a/x", time.Hour)))
	b.one(bareAsk(s, 7, waiting(write("w", "h:/a/x", time.Hour))))
	other := bareAsk(later(s), 7, waiting(write("w", "h:/a/other", time.Hour)))
	b.do(1, other)
	b.one(bareAsk(holder, 2, release("holder", "h:/a/x")))
	if len(other.res) == 1 && other.res[0].Code == wire.OK && other.res[0].Status == wire.StatusOK {
		if owner := b.m.view(0).Inspect("h:/a", "h:/a/other").Owner; owner != "w" {
			t.Errorf("the acquire of h:/a/other is answered OK %+v, and %q holds it", other.res, owner)
		}
	}
}
