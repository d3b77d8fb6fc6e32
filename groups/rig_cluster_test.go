package groups

import (
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/link"
)

// rigOn is a rig for callers of one node of a cluster.
func (f *localCluster) rigOn(i int) *rig {
	t, ok := f.t.(*testing.T)
	if !ok {
		t = new(testing.T) // a benchmark's, which asks nothing of it
	}
	r := &rig{t: t, node: f.nodes[i]}
	r.live.Store(f.nodes[i])
	r.next.Store(uint64(i+1) * 10_000_000) // ids and sessions of their own
	return r
}

// onBoth runs a test on a node that is alone, and on one that hosts nothing and forwards
// everything.
func onBoth(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Run("alone", func(t *testing.T) { test(t, newRig(t, nil)) })
	t.Run("forwarded", func(t *testing.T) {
		f := newLocalCluster(t, 2, func(_ int, c *Config) { c.StabilityWindow, c.ReplicationFactor = time.Hour, 1 })
		r := f.rigOn(1)
		f.until("the forwarder is ready", func() bool { return r.node.health().Flag })
		test(t, r)
		if n := len(r.node.replicasHere()); n != 0 {
			t.Fatalf("the forwarder hosts %d logs", n)
		}
	})
}

// network is what the nodes of a cluster send each other, and what a test lets through.
type network struct {
	mu  sync.Mutex
	cut map[string]bool // by node id
}

// Outgoing implements link.Faults.
func (w *network) Outgoing(p link.Passage) link.Fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	return link.Fate{Drop: w.cut[p.From] || w.cut[p.To]}
}

func (w *network) set(node string, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut == nil {
		w.cut = make(map[string]bool)
	}
	w.cut[node] = cut
}

// kill ends a node as a crash would: nobody hears of it.
func (f *localCluster) kill(w *network, i int) {
	f.t.Helper()
	n := f.nodes[i]
	w.set(n.id.NodeID, true)
	f.nodes[i] = nil
	if err := n.Close(0); err != nil {
		f.t.Error(err)
	}
}

// leader is the node that leads a path's log.
func (f *localCluster) leader(path string) int {
	f.t.Helper()
	at := -1
	f.until("somebody leads the log of "+path, func() bool {
		for i, n := range f.nodes {
			if n == nil {
				continue
			}
			ns := n.routes.Load().Resolve(path)
			if n.logOf(n.groupOf(ns)).leads() {
				at = i
				return true
			}
		}
		return false
	})
	return at
}
