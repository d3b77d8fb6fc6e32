package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestOnePollTakenBack: an owner polls for x (1), is QUEUED, and polls again (2), of which it hears nothing. x is
// granted (it is told by GRANT, or by asking (1) again). It takes (2) back, as it does not know what became of it. "A
// path goes only if that acquire took or named it, and every other acquire of the owner that did has been taken back in
// the same way": (1) named x, and was not taken back.
func TestOnePollTakenBack(t *testing.T) {
	const x = "h:/a/x"
	for name, two := range map[string]bool{"one session": false, "two sessions of the owner": true} {
		for again, asks := range map[string]bool{", told by GRANT": false, ", told OK when asked again": true} {
			t.Run(name+again, func(t *testing.T) {
				r := newRig(t, fewGroups)
				a, holder, rival := r.session(), r.session(), r.session()
				b := a
				if two {
					b = r.session()
				}
				holder.must(write("holder", x, time.Hour))
				one := r.next.Add(1)
				if res := a.start(one, write("o", x, time.Hour)).get(t,
					"the first poll"); res.Status != wire.StatusQueued {
					t.Fatalf("%+v", res)
				}
				second := r.next.Add(1)
				if res := b.start(second, write("o", x, time.Hour)).get(t,
					"the second poll"); res.Status != wire.StatusQueued {
					t.Fatalf("%+v", res)
				}
				holder.must(release("holder", x))
				if asks {
					if res := askAgain(a, one, write("o", x, time.Hour)).get(t,
						"the first poll, again"); res.Code != wire.OK || res.Status != wire.StatusOK {
						t.Fatalf("%+v", res)
					}
				}
				back := release("o", x)
				back.Target = second
				b.must(back)
				req := write("rival", x, time.Hour)
				req.Flags |= wire.FlagNoQueue
				if res := rival.ask(req); res.Code == wire.OK && res.Status == wire.StatusOK {
					t.Errorf("the rival gets %s, which was granted to acquire %d too, and was not taken back by that",
						x, one)
				}
			})
		}
	}
}
