package groups

import (
	"os"
	"testing"
	"time"
)

// TestReplacedDisk has a node come back with nothing: what it had is given up, and it
// gets replicas of its own anew.
func TestReplacedDisk(t *testing.T) {
	w := new(network)
	f := newFleet(t, 3, func(_ int, c *Config) { c.Faults = w })
	f.settle(3)
	f.kill(w, 2)
	c := &f.cfgs[2]
	if err := os.RemoveAll(c.DataDir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	c.RaftFS, c.FS = memDisks()
	w.set(c.NodeID, false)
	began := time.Now()
	f.start(2)
	f.settle(3)
	t.Logf("whole again after %v", time.Since(began).Round(100*time.Millisecond))
	for _, n := range f.nodes[:2] {
		for _, m := range n.hosted() {
			if ms, err := n.membership(m.shard); err == nil && len(ms.Nodes) != 3 {
				t.Errorf("log %d has the voters %v", m.shard, ms.Nodes)
			}
		}
	}
}
