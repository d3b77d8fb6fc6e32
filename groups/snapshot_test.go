package groups

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pathlockd/pathlockd/groups/events"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/internal/testkit/observed"
	"github.com/pathlockd/pathlockd/wire"
)

// TestSnapshot streams a log's state while it changes, and reads it back into
// another machine: it is the state of the moment at which it was prepared. What happened up to then nobody told there.
func TestSnapshot(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	fill := func(from, to int) {
		for i := from; i < to; i++ {
			c.must(write(fmt.Sprintf("o%d", i%5), fmt.Sprintf("h:/s%d/%d", i%7, i), time.Hour))
			if i%3 == 0 {
				c.must(release(fmt.Sprintf("o%d", i%5), fmt.Sprintf("h:/s%d/%d", i%7, i)))
			}
		}
	}
	c.must(setPolicy("h:/s1/deep", wire.PointRW))
	fill(0, 100)
	r.clock.freeze()
	for _, m := range r.node.hosted() {
		shard := m.Shard
		if err := m.Checkpoint(false); err != nil {
			t.Fatal(err)
		}
		m.Evict()
		fill(100, 140)
		prepared, err := m.PrepareSnapshot()
		if err != nil {
			t.Fatal(err)
		}
		want := digestsOf(m)
		fill(140, 160)
		var stream bytes.Buffer
		if err := m.SaveSnapshot(prepared, &stream, nil); err != nil {
			t.Fatal(err)
		}
		copied, heard := r.machineOf(shard), new(observed.Events)
		copied.Hub.(*events.Hub).Subscribe(&wire.Subscription{Owner: "o0", Sink: heard})
		if err := copied.RecoverFromSnapshot(&stream, nil); err != nil {
			t.Fatal(err)
		}
		if _, gaps := heard.Told(); gaps != 1 {
			t.Fatalf("log %d: a listener is told %d times that it may have missed events", shard, gaps)
		}
		if got := digestsOf(copied); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("log %d: the copy's digests are %v, want %v", shard, got, want)
		}
		for i := range 30 { // fences that are only on disk came along
			path := fmt.Sprintf("h:/s%d/%d", i%7, i)
			g := r.node.groupOf("h:/s" + fmt.Sprint(i%7))
			if r.node.homes[g] != shard {
				continue
			}
			a, b := m.View(g).Inspect("h:/s"+fmt.Sprint(i%7), path),
				copied.View(g).Inspect("h:/s"+fmt.Sprint(i%7), path)
			if a.Token != b.Token || a.Flag != b.Flag {
				t.Fatalf("fence of %s: %d %v in the copy, %d %v in the original", path, b.Token, b.Flag,
					a.Token, a.Flag)
			}
		}
	}
}

// machineOf is another node's machine of a log, with nothing in it.
func (r *rig) machineOf(shard uint64) *replica.Machine {
	r.t.Helper()
	n := &Node{cfg: r.node.cfg, id: r.node.id, log: r.node.log, clock: r.clock, homes: r.node.homes,
		hub: events.New(10)}
	n.routes.Store(wire.NewRoutes(0, 1, nil))
	var err error
	if n.store, err = replica.OpenStore("other", vfs.NewMem(), r.node.log, r.node.failed); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := n.store.Close(); err != nil {
			r.t.Error(err)
		}
	})
	return replica.New(n.replicaConfig(shard, 1))
}
