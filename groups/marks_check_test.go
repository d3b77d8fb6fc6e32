package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestReleaseBehindACheck: an owner has a lock. Its release is refused with code 14, as the group is full. Another
// thread of the owner asks whether the lock is still held (state HELD, which takes nothing). Then the release is asked
// again and answered OK: the lock is free.
func TestReleaseBehindACheck(t *testing.T) {
	const path = "h:/a/x"
	for name, checks := range map[string]bool{"no check": false, "a check": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fewGroups)
			c := r.session()
			c.must(write("o", path, time.Hour))
			give := r.next.Add(1)
			fullOf(t, r, "h:/a", func() {
				if res := c.start(give, release("o", path)).get(t, "the release"); res.Code != wire.Unavailable {
					t.Fatalf("%+v", res)
				}
			})
			if checks {
				check := write("o", path, time.Hour)
				check.Locks[0].State = wire.StateHeld
				c.must(check)
			}
			if res := askAgain(c, give, release("o", path)).get(t, "the release, asked again"); res.Code != wire.OK {
				t.Fatalf("%+v", res)
			}
			if owner := c.inspect(path).Owner; owner != "" {
				t.Errorf("the release is answered OK, nothing was taken since it was sent, and %s is held by %q "+
					"for an hour", path, owner)
			}
		})
	}
}
