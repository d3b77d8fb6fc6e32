package groups

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/events"
	"github.com/pathlockd/pathlockd/groups/mesh"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/internal/testkit/observed"
	"github.com/pathlockd/pathlockd/wire"
)

// listen subscribes at a node that is fed by another, and waits until it is.
func (f *localCluster) listen(to, source int, shard uint64) *observed.Events {
	f.t.Helper()
	e := new(observed.Events)
	if _, err := f.nodes[to].Subscribe(&wire.Subscription{Owner: "waiter", Number: 1, Sink: e}); err != nil {
		f.t.Fatal(err)
	}
	h := f.nodes[source].hub
	f.until("the node is fed", func() bool {
		h.Mu.Lock()
		defer h.Mu.Unlock()
		return len(h.Stream(shard).Feeds) == 1
	})
	return e
}

// TestFedFromTooFar: a node that is fed is away for more events than are kept: when it
// is back its subscribers are told of the gap, and then of what comes.
func TestFedFromTooFar(t *testing.T) {
	t.Parallel()
	const keep, path = 4, "h:/fed/x"
	w := new(network)
	f := apart(t, func(_ int, c *Config) {
		c.EventBuffer, c.Faults = keep, w
		c.ElectionMin, c.Heartbeat = 30*time.Second, time.Second // a log without a leader is no gap so soon
	})
	n := f.nodes[0]
	shard := n.logOf(n.groupOf(n.routes.Load().Resolve(path))).shard
	e := f.listen(1, 0, shard)
	c := f.rigOn(0).session()
	grant := func() {
		t.Helper()
		c.must(write("holder", path, time.Hour))
		if res := c.ask(write("waiter", path, time.Hour)); res.Status != wire.StatusQueued {
			t.Fatalf("%+v", res)
		}
		c.must(release("holder", path))
		c.must(release("waiter", path))
	}
	heard := func(what string, events, gaps int) {
		t.Helper()
		f.until(what, func() bool {
			got, g := e.Told()
			return len(got) >= events && g >= gaps
		})
		if got, g := e.Told(); len(got) != len(slices.Compact(slices.Sorted(slices.Values(got)))) || g != gaps {
			t.Fatalf("%s: it heard %q, and of %d gaps", what, got, g)
		}
	}
	_, before := e.Told()
	grant()
	heard("it hears of a grant", 1, before)
	w.set("n-1", true)
	for range 4 * keep {
		grant()
	}
	w.set("n-1", false)
	heard("it hears of the gap", 1, before+1)
	got, _ := e.Told()
	grant()
	heard("it hears of what comes", len(got)+1, before+1)
}

// TestFeedEnds: who is fed hears when there is no more, or something is missing: from a
// source that has no replica, or none any more, that jumps itself, or that is gone.
func TestFeedEnds(t *testing.T) {
	t.Parallel()
	const shard = rows.FirstLog
	f := apart(t, nil)
	e := f.listen(1, 0, shard)
	a, b := f.nodes[0], f.nodes[1]
	ended := func(n *Node, conn *mesh.Conn) func() bool {
		return func() bool {
			n.feeding.mu.Lock()
			defer n.feeding.mu.Unlock()
			return n.feeding.ended[endedFeed{conn, shard}]
		}
	}
	gap := func(what string, do func()) {
		t.Helper()
		_, before := e.Told()
		do()
		f.until("it is told of a gap: "+what, func() bool { _, now := e.Told(); return now > before })
	}
	conn := a.cluster.conn(b.id.HostID)
	f.until("the founder asks to be fed", func() bool {
		conn = a.cluster.conn(b.id.HostID)
		return conn != nil && conn.Send(append(binary.AppendUvarint([]byte{events.FrameFeed}, shard), 0, 0))
	})
	f.until("the founder is told that it cannot be fed", ended(a, conn))
	gap("the source jumped", func() { a.hub.Missed(shard, a.hub.Where(shard).Index+1) })
	conn = b.cluster.conn(a.id.HostID)
	if err := a.dropReplica(shard, 1); err != nil {
		t.Fatal(err)
	}
	f.until("who was fed is told that there is no more", ended(b, conn))
	gap("the source is gone", func() {
		if err := a.Close(0); err != nil {
			t.Error(err)
		}
		f.nodes[0] = nil
	})
}

// TestPublishedOnce: a replica that comes to entries of which another node has told
// already tells nobody again.
func TestPublishedOnce(t *testing.T) {
	h, e := events.New(10), new(observed.Events)
	h.Opened(2, 3)
	h.Subscribe(&wire.Subscription{Owner: "o", Number: 1, Sink: e})
	event := []engine.Event{{Kind: wire.EventGrant, Owner: "o", Path: "h:/a"}}
	for _, index := range []uint64{4, 5, 4, 5, 6} {
		h.Publish(2, index, event, true)
	}
	if got, gaps := e.Told(); len(got) != 3 || gaps != 0 {
		t.Errorf("heard %q and of %d gaps, want three events", got, gaps)
	}
}
