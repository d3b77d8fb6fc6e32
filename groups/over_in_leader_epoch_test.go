package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestProcessOverAsLeaderEpochBegins: who gets to know that a process is over while a leader epoch is applied, after
// its waits were listed, ends what was not on that list.
func TestProcessOverAsLeaderEpochBegins(t *testing.T) {
	r := newRig(t, nil)
	const path = "h:/a/x"
	holder := r.session()
	holder.must(write("holder", path, time.Hour))
	o := r.row(r.served(), "call", path)
	l := r.node.logOf(r.node.groupOf("h:/a"))
	m := l.local.Load()
	known := make(chan struct{})
	m.Lock()
	own := m.LeaderEpoch
	l.held.Store(0)
	found := m.OpenCalls(own.Term) // as BeginLeaderEpoch does
	go func() {
		r.node.processOver(r.node.id.HostID, r.node.id.Starts)
		close(known)
	}()
	select {
	case <-known:
	case <-time.After(100 * time.Millisecond): // it waits for the leader epoch
	}
	l.Began(own, found)
	m.Unlock()
	<-known
	select {
	case res := <-o.done:
		if res.Code != wire.DeadlineExceeded {
			t.Errorf("the wait is answered %+v", res)
		}
	case <-time.After(10 * time.Second):
		t.Error("the wait does not end")
	}
}
