package groups

import (
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/link"
)

// slowRaft is a network that delays what one node sends another's raft.
type slowRaft struct {
	network
	from string
	late time.Duration
}

// Outgoing implements link.Faults.
func (w *slowRaft) Outgoing(p link.Passage) link.Fate {
	fate := w.network.Outgoing(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.Kind == link.Messages && p.From == w.from {
		fate.Delay = w.late
	}
	return fate
}

// TestReadAsALogShrinks: of three nodes one is away, so each log has one voter in the end, on one of the two others. As
// the other one is taken out, reads wait for its answers. When the third is back, all logs have three voters again.
func TestReadAsALogShrinks(t *testing.T) {
	t.Parallel()
	w := new(slowRaft)
	f := newLocalCluster(t, 3, func(_ int, c *Config) { c.Faults, c.EvictionWindow = w, 2*time.Second })
	f.settle(3)
	stop := make(chan struct{})
	var reads sync.WaitGroup
	defer reads.Wait()
	defer close(stop)
	for _, n := range f.nodes[:2] {
		for _, l := range n.ordered() {
			reads.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(5 * time.Millisecond):
					}
					if p, err := l.raft.ReadIndex(time.Second); err == nil {
						go func() { l.raft.Await(2*time.Second, nil, stop, p); p.Release() }()
					}
				}
			})
		}
	}
	w.mu.Lock()
	w.from, w.late = f.nodes[1].id.NodeID, 30*time.Millisecond
	w.mu.Unlock()
	w.set(f.nodes[2].id.NodeID, true)
	f.until("each log has one voter", func() bool {
		alone := 0
		for _, n := range f.nodes[:2] {
			n.plans.mu.Lock()
			for shard, p := range n.plans.by {
				if n.logs[shard].leads() && len(p.log.Replicas) == 1 {
					alone++
				}
			}
			n.plans.mu.Unlock()
		}
		return alone == 1+f.cfgs[0].LogCount
	})
	w.set(f.nodes[2].id.NodeID, false)
	f.settle(3)
}
