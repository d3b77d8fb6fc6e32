package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAskedTwiceForwarded: a wait is asked again on its connection while it waits, alone and through a node that
// forwards. What becomes of it is told to the one who asked last; the other one is told so, and not that somebody ended
// it.
func TestAskedTwiceForwarded(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, r *rig) {
		holder, c := r.session(), r.session()
		holder.must(write("holder", "h:/x", time.Hour))
		id := r.next.Add(1)
		first := c.start(id, waiting(write("w", "h:/x", time.Hour)))
		<-first.queued
		second := askAgain(c, id, waiting(write("w", "h:/x", time.Hour)))
		select {
		case <-second.queued:
		case res := <-second.done:
			t.Fatalf("%+v", res)
		}
		if res := first.get(t, "the first"); res.Code != wire.DeadlineExceeded {
			t.Errorf("the first is answered %v %q", res.Code, res.Message)
		}
		holder.must(release("holder", "h:/x"))
		if res := second.get(t, "the second"); res.Code != wire.OK || res.Status != wire.StatusOK {
			t.Errorf("the second is answered %+v", res)
		}
	})
}
