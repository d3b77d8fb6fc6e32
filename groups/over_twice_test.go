package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
)

// TestProcessOverKnownTwice: who is told what another goroutine has just got to know goes on when the ends are
// queued, not before.
func TestProcessOverKnownTwice(t *testing.T) {
	r := newRig(t, nil)
	const path = "h:/a/x"
	holder := r.session()
	holder.must(write("holder", path, time.Hour))
	served := r.served()
	r.row(served, "call", path)
	l := r.node.logOf(r.node.groupOf("h:/a"))
	m := l.local.Load()
	l.pauses(true)
	defer l.pauses(false)
	tell := func() { r.node.processOver(r.node.id.HostID, r.node.id.Starts) }
	m.Lock()
	go tell()
	eventually(t, "it is known", func() bool { return r.node.processes.over(engine.Session(served.session.ID)) })
	queued := make(chan bool, 1)
	go func() {
		tell()
		l.mu.Lock()
		defer l.mu.Unlock()
		queued <- len(l.mu.queue) > 0 && l.mu.queue[0].first
	}()
	select {
	case <-queued:
		t.Error("it goes on before the ends are queued")
		m.Unlock()
	case <-time.After(100 * time.Millisecond):
		m.Unlock()
		if !<-queued {
			t.Error("the ends are not queued")
		}
	}
}
