package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestClosedUnderAChange: a node is closed while a policy change that it was asked for is held up. Its caller is told
// that it is, as when its time is over: a closed node owes nobody an answer (PROTOCOL.md, requests and replies).
func TestClosedUnderAChange(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c := r.session()
	r.frozen("h:/a/b", "h:/a") // by an attempt that is later than those of the change
	change := c.start(r.next.Add(1), setPolicy("g:/a/b", wire.PointRW))
	eventually(t, "the change is accepted", r.node.changes.any)
	r.close()
	select {
	case res := <-change.done:
		if res.Code != wire.DeadlineExceeded {
			t.Errorf("the change is answered %+v", res)
		}
	case <-time.After(5 * time.Second):
		t.Error("the change is never answered")
	}
}
