package pathlockd

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestPollsAreToldApartToABound: a program asks again and again, for a place in the queue for a day and each time with something
// else to give back. What is kept of that is bounded; beyond it all that the owner has may be given back.
func TestPollsAreToldApartToABound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s := newTimed(t)
		l := hours(t, c, "a:/b/c")
		if !s.rival("a:/b/d") {
			t.Fatal("this shows nothing")
		}
		for i := range 300 {
			req := turning(24 * time.Hour)
			req.Releases = []wire.ReleaseRequest{{Path: fmt.Sprint("a:/b/x", i)}}
			if i == 299 {
				req.Releases = append(req.Releases, wire.ReleaseRequest{Path: "a:/b/c"})
			}
			asksFor(t, c, req, wire.StatusQueued)
		}
		pass(time.Minute)
		must(t, l.Err())
		c.keeper.mu.Lock()
		kept := len(c.keeper.mu.shorter["me"])
		c.keeper.mu.Unlock()
		if kept > lingers+1 {
			t.Errorf("%d are kept, want %d at most", kept, lingers+1)
		}
		s.rivalGives("a:/b/d")
		pass(askedWithin + time.Second)
		if l.Err() == nil {
			t.Error("the last of them gave it back, and it counts as held")
		}
	})
}
