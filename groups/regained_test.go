package groups

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/link"
	"github.com/pathlockd/pathlockd/wire"
)

// latch cuts a node off once it leads a log in a later term than some, until it is healed.
type latch struct {
	l    atomic.Pointer[shardLog] // nil: nothing is cut off
	term atomic.Uint64
	shut atomic.Bool
}

// Outgoing implements link.Faults.
func (c *latch) Outgoing(p link.Passage) link.Fate {
	l := c.l.Load()
	if l == nil {
		return link.Fate{}
	}
	if l.mine() > c.term.Load() {
		c.shut.Store(true)
	}
	node := l.node.id.NodeID
	return link.Fate{Drop: c.shut.Load() && (p.From == node || p.To == node)}
}

func (c *latch) cut(l *shardLog, after uint64) {
	c.term.Store(after)
	c.l.Store(l)
}

func (c *latch) heal() { c.l.Store(nil) }

// handTo has a node lead a log, by the leader's own will.
func (f *localCluster) handTo(to *Node, shard uint64) {
	f.t.Helper()
	replica := to.logs[shard].local.Load().Replica
	f.until(to.id.NodeID+" leads again", func() bool {
		if to.logs[shard].mine() != 0 {
			return true
		}
		for _, n := range f.nodes {
			if n != to && n.logs[shard].leads() {
				_ = n.handOver(shard, replica) // refused: it is tried again
			}
		}
		return false
	})
}

// TestRegainedLeadership: what a leader proposed before it was cut off, and lost, does not
// hold up what it proposes when it leads again: neither batches nor its leader epoch. A request
// may take ten minutes here, so raft says nothing of the lost proposals in time.
func TestRegainedLeadership(t *testing.T) {
	t.Parallel()
	const path = "h:/regained/x"
	start := func(t *testing.T) (*localCluster, *latch, int, *shardLog) {
		c := new(latch)
		f := newLocalCluster(t, 3, func(_ int, cfg *Config) {
			cfg.LogCount, cfg.Faults, cfg.RequestTimeout = 1, c, 10*time.Minute
			cfg.EvictionWindow = time.Hour
		})
		f.settle(3)
		at := f.leader(path)
		n := f.nodes[at]
		return f, c, at, n.logOf(n.groupOf(n.routes.Load().Resolve(path)))
	}
	// others waits until another node leads, and the former leader knows.
	others := func(f *localCluster, l *shardLog) {
		f.until("another node leads", func() bool {
			for _, n := range f.nodes {
				if n != l.node && n.logs[l.shard].leads() {
					return l.mine() == 0
				}
			}
			return false
		})
	}
	// writes holds that the node leads and writes.
	writes := func(t *testing.T, f *localCluster, at int, l *shardLog) {
		t.Helper()
		r := f.rigOn(at)
		r.next.Add(1000) // another session than any before
		o := r.session().start(1, write("after", "h:/regained/y", time.Hour))
		f.until("a write of the leader that is back", func() bool { return len(o.done) > 0 })
		if res := <-o.done; res.Code != wire.OK || res.Status != wire.StatusOK {
			t.Errorf("a write of the leader that is back: %+v", res)
		}
	}
	t.Run("batches", func(t *testing.T) {
		t.Parallel()
		f, c, at, l := start(t)
		c.cut(l, 0)
		client := f.rigOn(at).session()
		for id := uint64(1); ; id++ { // until as many batches are under way as may be
			client.start(id, write("o", path, time.Hour))
			l.drive.Lock()
			full := len(l.drive.under) == window
			l.drive.Unlock()
			if full {
				break
			}
			if id > 100 {
				t.Fatal("the window never fills")
			}
			f.until("the batch is under way, or the next one", func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				return len(l.mu.queue) == 0
			})
		}
		others(f, l)
		c.heal()
		f.handTo(f.nodes[at], l.shard)
		writes(t, f, at, l)
	})
	t.Run("leader epoch", func(t *testing.T) {
		t.Parallel()
		f, c, at, l := start(t)
		held := l.held.Load()
		c.cut(l, held)
		f.handTo(f.nodes[(at+1)%3], l.shard)
		f.until("it leads again, cut off", c.shut.Load)
		others(f, l)
		c.heal()
		f.handTo(f.nodes[at], l.shard)
		writes(t, f, at, l)
	})
}
