package replica

import (
	"testing"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestAnotherUnderTheIDOfAChange: what is asked under the id of a policy change of the session, and is not that change,
// is refused and not carried out, be the change under way or done (PROTOCOL.md, section 9). The change itself goes on.
func TestAnotherUnderTheIDOfAChange(t *testing.T) {
	set := &wire.Request{Op: wire.OpSetPolicy, Namespace: "h:/a", Algorithm: wire.PointRW}
	others := map[string]*wire.Request{
		"another change":    {Op: wire.OpSetPolicy, Namespace: "g:/b", Algorithm: wire.Semaphore},
		"another algorithm": {Op: wire.OpSetPolicy, Namespace: "h:/a", Algorithm: wire.Semaphore},
		"its end":           {Op: wire.OpDeletePolicy, Namespace: "h:/a"},
		"a token":           {Op: wire.OpIncrToken},
	}
	for _, when := range []string{"under way", "done", "done, restarted"} {
		for what, req := range others {
			t.Run(when+", "+what, func(t *testing.T) {
				b := newBare(t, rows.SystemLog, DefaultLimits())
				s := bareSession(1)
				finish := func() {
					t.Helper()
					ready := b.m.System.Ready()
					if len(ready) != 1 {
						t.Fatalf("%d changes are under way", len(ready))
					}
					b.do(1, bareAsk(nil, 0, &wire.Request{Op: wire.OpRouteFinish, Target: ready[0].ID, Attempt: 1}))
				}
				one, again := bareAsk(s, 5, set), bareAsk(later(s), 5, set)
				b.do(1, one)
				if when != "under way" {
					finish()
				}
				if when == "done, restarted" {
					b.reload()
				}
				other := bareAsk(later(s), 5, req)
				b.do(1, other)
				if len(other.res) != 1 || other.res[0].Code != wire.InvalidArgument {
					t.Errorf("it is answered %+v", other.res)
				}
				b.do(1, again)
				if when == "under way" {
					finish()
				}
				for _, a := range []*bareCall{one, again} {
					if len(a.res) != 1 || a.res[0].Code != wire.OK {
						t.Errorf("the change is answered %+v", a.res)
					}
				}
				if under := b.m.System.Ready(); len(under) > 0 {
					t.Errorf("%v of %s is under way", under[0].Op, under[0].Root)
				}
			})
		}
	}
}
