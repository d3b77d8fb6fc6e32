package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestEndsDoNotWaitForWhatIsForwarded: what was forwarded to an earlier leader holds up what is queued behind it, but
// not the ends that come first: time stands still in the log until they are carried out.
func TestEndsDoNotWaitForWhatIsForwarded(t *testing.T) {
	r := newRig(t, nil)
	const path = "h:/a/x"
	holder := r.session()
	holder.must(write("holder", path, time.Hour))
	o := r.row(r.served(), "call", path)
	l := r.node.logOf(r.node.groupOf("h:/a"))
	l.mu.Lock()
	l.mu.forwarded.conn, l.mu.forwarded.parts = new(wireEnd), map[uint64]*part{1: nil}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.mu.forwarded.conn, l.mu.forwarded.parts = nil, nil
		l.mu.Unlock()
	}()
	r.node.processOver(r.node.id.HostID, r.node.id.Starts)
	select {
	case res := <-o.done:
		if res.Code != wire.DeadlineExceeded {
			t.Errorf("the wait is answered %+v", res)
		}
	case <-time.After(10 * time.Second):
		t.Error("the wait does not end")
	}
}
