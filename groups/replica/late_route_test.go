package replica

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestTakenBackByAnOldRoute: a node that does not know the newest routes yet sends the repeat of a waiting acquire to
// where its path was, and the session has asked for a release of the path since. The wait stands where the path is now:
// the repeat is not told that nothing was done, but sent on. (The simulation, seed 1029687: told so, the client went
// away, and the lock was granted to it for its TTL.)
func TestTakenBackByAnOldRoute(t *testing.T) {
	b, s := newBare(t, rows.FirstLog, DefaultLimits()), bareSession(1)
	if res := b.one(bareAsk(s, 2, release("o", "h:/a/b/x"))); res.Code != wire.OK {
		t.Fatalf("%+v", res)
	}
	freeze := engine.Command{NS: "h:/a", Version: 1, Req: &wire.Request{Op: wire.OpFreeze, Namespace: "h:/a/b",
		Attempt: 1, Target: 1}}
	b.m.Lock()
	b.m.Out.Reset()
	res := b.m.Groups[0].apply(engine.Clock{Now: b.now, Wall: b.now}, &freeze)
	b.m.Unlock()
	if res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Fatalf("freeze is answered %+v", res)
	}
	req := write("o", "h:/a/b/x", time.Hour)
	req.QueueTTLMillis, req.Flags = 60_000, wire.FlagWait
	if res := b.one(bareAsk(later(s), 1, req)); res.Code != wire.Unavailable || res.Position != engine.Moved {
		t.Errorf("the repeat by the old route is answered %v %s", res.Code, res.Message)
	}
}
