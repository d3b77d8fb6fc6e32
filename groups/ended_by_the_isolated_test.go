package groups

import (
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/link"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// cutOff is a network that cuts one node off: of raft's messages alone, or of everything.
type cutOff struct {
	mu   sync.Mutex
	node string
	all  bool
}

func (w *cutOff) Outgoing(p link.Passage) link.Fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.node != "" && (p.From == w.node || p.To == w.node)
	return link.Fate{Drop: of && (w.all || p.Kind == link.Messages || p.Kind == link.Snapshots)}
}

func (w *cutOff) set(node string, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.node, w.all = node, all
}

// TestIsolatedLeaderEndsAWait: a client waits for a lock through a node that forwards to the log's leader. The leader
// has proposed the acquire, and is cut off from everybody. Another node leads, the client's node asks it for the wait,
// and the client is told its place. It does nothing from then on. When the former leader is back, request_timeout_ms
// later, the wait goes on, and is granted when its turn comes: nobody but its client or its client's node ends it.
func TestIsolatedLeaderEndsAWait(t *testing.T) {
	t.Parallel()
	const path = "h:/cut/x"
	w := new(cutOff)
	f := newLocalCluster(t, 3, func(_ int, c *Config) {
		c.Faults, c.EvictionWindow, c.LogCount, c.RequestTimeout = w, time.Hour, 1, 6*time.Second
	})
	f.settle(3)
	first := f.leader(path)
	gone := f.nodes[first]
	l := gone.logs[rows.FirstLog]
	r := f.rigOn((first + 1) % 3)
	holder, c := r.session(), r.session()
	holder.must(write("holder", path, time.Hour))
	req := waiting(write("waits", path, time.Hour))
	req.QueueTTLMillis = 3_600_000

	w.set(gone.id.NodeID, false)
	o := c.start(r.next.Add(1), req)
	proposed := func() (here bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, fl := range l.mu.batches {
			for _, p := range fl.left() {
				here = here || p.waits
			}
		}
		return here
	}
	f.until("the leader has proposed it", proposed)
	w.set(gone.id.NodeID, true)
	f.until("the client is told its place by another leader", func() bool { return len(o.queued) > 0 })
	f.until("the request's time is over at the former leader", func() bool { return !proposed() })
	if len(o.done) > 0 {
		t.Fatalf("answered before it is back: %+v", <-o.done)
	}
	w.set("", false)
	f.until("it follows", func() bool {
		host, _ := gone.leaderOf(rows.FirstLog)
		return host != "" && host != gone.id.HostID
	})
	select {
	case res := <-o.done:
		t.Fatalf("nobody cancelled it, its place was told, its time in the queue is an hour, the lock is held; it "+
			"is answered %v %q", res.Code, res.Message)
	case <-time.After(3 * pause):
	}
	holder.must(release("holder", path))
	if res := o.get(t, "the wait"); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Errorf("it is answered %+v", res)
	}
}
