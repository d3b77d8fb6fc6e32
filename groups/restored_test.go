package groups

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pathlockd/pathlockd/groups/backup"
	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestRestoredIsCompacted: a restored node becomes growable once no log has its first
// entries any more, and is so after a restart too.
func TestRestoredIsCompacted(t *testing.T) {
	r := newRig(t, nil)
	if !r.node.Growable() {
		t.Fatal("a founder is not growable")
	}
	r.session().must(write("o", "h:/a/x", time.Hour))
	dir := r.save(nil)
	other, _ := r.restore(dir)
	raw := func() string {
		b, err := os.ReadFile(filepath.Join(other.cfg.DataDir, rows.IdentityFile))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	eventually(t, "the node is growable", other.node.Growable)
	check := func() {
		t.Helper()
		for shard := range other.node.logs {
			first, last, _, err := other.node.raft.Log(shard).Bounds()
			if err != nil {
				t.Fatal(err)
			}
			if first <= 1 {
				t.Errorf("log %d has entries %d to %d: a new replica would be sent them from the start",
					shard, first, last)
			}
		}
		if strings.Contains(raw(), "restored") {
			t.Errorf("the identity says %s", raw())
		}
	}
	check()
	for range 2 {
		if err := other.node.Close(time.Second); err != nil {
			t.Fatal(err)
		}
		other.openRestored()
		if !other.node.Growable() {
			t.Fatal("it is not growable after a restart")
		}
		check()
		if owner := other.session().inspect("h:/a/x").Owner; owner != "o" {
			t.Fatalf("held by %q", owner)
		}
		other.session().must(write("p", "h:/a/y", time.Hour))
	}
}

// TestRestoredIsNotGrowable: before its logs are compacted a restored node is not
// growable, however often it is started; its settings are those of the old cluster.
func TestRestoredIsNotGrowable(t *testing.T) {
	r := newRig(t, nil)
	data := filepath.Join(t.TempDir(), "restored")
	o := backup.Options{From: r.save(nil), DataDir: data, NodeID: "pathlockd-0"}
	if _, err := backup.Restore(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		id, err := datadir.Load(data)
		if err != nil {
			t.Fatal(err)
		}
		cfg := r.cfg.Defaults()
		if newNode(cfg, id).Growable() {
			t.Error("it is growable before its logs are compacted")
		}
		if err := id.Check(cfg.birth()); err != nil {
			t.Error(err)
		}
		id.Starts++
		if err := id.Save(data); err != nil {
			t.Fatal(err)
		}
	}
}

// TestClusterGrowsFromBackup: nodes join one that was restored, and have all that it has.
func TestClusterGrowsFromBackup(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.LogCount = 4 })
	c := r.session()
	for i := range 50 {
		c.must(write("o", fmt.Sprintf("h:/%d/x", i), time.Hour))
	}
	if res := c.ask(write("waits", "h:/7/x", time.Hour)); res.Status != wire.StatusQueued {
		t.Fatalf("answered %v", res.Status)
	}
	data := filepath.Join(t.TempDir(), "restored")
	if _, err := backup.Restore(context.Background(), backup.Options{From: r.save(nil), DataDir: data,
		NodeID: "n-0"}); err != nil {
		t.Fatal(err)
	}
	f := newLocalCluster(t, 3, func(i int, c *Config) {
		if i == 0 {
			c.DataDir, c.FS, c.Bootstrap = data, vfs.Default, false
		}
	})
	f.settle(3)
	f.each(3, func(n *Node) {
		f.until(n.id.NodeID+" holds all logs", func() bool { return len(n.hosted()) == 5 })
	})
	newClusterClient(f.nodes[1]).mustAcquire(t, "h:/new/x", "p")
	f.until("all have the same", func() bool {
		first := digestsOn(f.nodes[0])
		return maps.Equal(first, digestsOn(f.nodes[1])) && maps.Equal(first, digestsOn(f.nodes[2]))
	})
	for _, m := range f.nodes[2].hosted() {
		m.Lock()
		for _, g := range m.Order {
			if g.State.Counter() < backup.DefaultJump {
				t.Errorf("group %d of a node that joined counts from %d", g.Number, g.State.Counter())
			}
		}
		m.Unlock()
	}
	rest := &rig{t: t, cfg: f.cfgs[2]}
	rest.live.Store(f.nodes[2])
	s := rest.session()
	if res := s.inspect("h:/7/x"); res.Owner != "o" {
		t.Errorf("held by %q", res.Owner)
	}
	s.must(release("o", "h:/7/x"))
	if res := s.inspect("h:/7/x"); res.Owner != "waits" {
		t.Errorf("held by %q once it was free", res.Owner)
	}
}
