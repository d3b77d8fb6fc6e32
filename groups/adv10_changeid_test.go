package groups

import (
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv10AnotherUnderTheIDOfAChange: a request id that was used for a policy change, which is under way or done, is used for another
// change. It is answered OK, as the first one is, and what it asked for is not done: of a change that was queued no hash is remembered
// (groups/commands.go, systemCommand), nor is what is under way compared. PROTOCOL.md section 9: "id that was used for another request of the
// session | code 3 for that id, if the server still knows"; so it is for acquires that wait (TestAnotherUnderTheIDOfAWait).
func TestAdv10AnotherUnderTheIDOfAChange(t *testing.T) {
	for _, when := range []string{"under way", "done"} {
		t.Run(when, func(t *testing.T) {
			b := newBare(t, systemShard, defaultLimits())
			s := bareSession(1)
			finish := func() {
				b.do(1, bareAsk(nil, 0, &wire.Request{Op: wire.OpRouteFinish, Target: b.m.system.Ready()[0].ID, Attempt: 1}))
			}
			one := bareAsk(s, 5, &wire.Request{Op: wire.OpSetPolicy, Namespace: "h:/a", Algorithm: wire.PointRW})
			other := bareAsk(later(s), 5, &wire.Request{Op: wire.OpSetPolicy, Namespace: "g:/b", Algorithm: wire.Semaphore})
			b.do(1, one)
			if when == "done" {
				finish()
			}
			b.do(1, other)
			if when != "done" {
				finish()
			}
			if len(one.res) != 1 || one.res[0].Code != wire.OK {
				t.Fatalf("the change is answered %+v", one.res)
			}
			if len(other.res) != 1 || other.res[0].Code != wire.InvalidArgument {
				t.Errorf("another change under its id is answered %+v, and is not carried out", other.res)
			}
		})
	}
}
