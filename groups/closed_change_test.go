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

// TestChangeGoesOnAfterARestart: a change that was accepted is carried out once the node is back, though nobody asks
// for anything more.
func TestChangeGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.frozen("h:/a/b", "h:/a")
	r.session().start(r.next.Add(1), setPolicy("g:/a/b", wire.PointRW))
	eventually(t, "the change is accepted", r.node.changes.any)
	before := r.node.routes.Load().Version
	r.restart()
	eventually(t, "the change is carried out", func() bool { return r.node.routes.Load().Version > before })
}
