package pathlockd

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/groups/link"
	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// trio is three real nodes of one cluster in this process, and what clients asked each
// of them.
type trio struct {
	t     testing.TB
	nodes [3]*groups.Node // nil: killed
	srvs  [3]*loop.Server
	addrs [3]string

	mu    sync.Mutex
	cut   map[string]bool // by node id: its words are lost, and those for it
	asked [3]int          // releases that clients sent the node themselves
}

// Outgoing implements link.Faults.
func (c *trio) Outgoing(p link.Passage) link.Fate {
	c.mu.Lock()
	defer c.mu.Unlock()
	return link.Fate{Drop: c.cut[p.From] || c.cut[p.To]}
}

// counted is a node as clients see it. What other nodes forward does not come by here.
type counted struct {
	*groups.Node
	c  *trio
	at int
}

func (h counted) Serve(calls []*wire.Call) {
	h.c.mu.Lock()
	for _, call := range calls {
		if call.Op == wire.OpRelease {
			h.c.asked[h.at]++
		}
	}
	h.c.mu.Unlock()
	h.Node.Serve(calls)
}

// took answers how many releases each node was sent since it was called last.
func (c *trio) took() (asked [3]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked, c.asked = c.asked, [3]int{}
	return asked
}

func trioID(i int) string { return fmt.Sprintf("pathlockd-%d", i) }

// newTrio starts them. Each log has three voters when it returns, and no leadership moves
// unless somebody moves it.
func newTrio(t testing.TB) *trio {
	t.Helper()
	c := &trio{t: t, cut: make(map[string]bool)}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	gossip := freeAddr(t)
	t.Cleanup(func() {
		for i := range c.nodes {
			c.close(i)
		}
	})
	for i := range c.nodes {
		c.addrs[i] = freeAddr(t)
		cfg := groups.Config{
			DataDir: t.TempDir(), NodeID: trioID(i), Segments: 1, LogCount: 2, GroupCount: 16,
			RaftAddr: freeAddr(t), NativeAddr: c.addrs[i], GossipAddr: freeAddr(t),
			Token:       "0123456789abcdef0123456789abcdef",
			ElectionMin: 3 * time.Second, Heartbeat: 300 * time.Millisecond, OneHost: true, Faults: c, Log: quiet,
			StabilityWindow: 300 * time.Millisecond, EvictionWindow: time.Hour, LeaderBalance: time.Hour,
		}
		if i == 0 {
			cfg.Bootstrap, cfg.GossipAddr = true, gossip
		} else {
			cfg.Seeds = []string{gossip}
		}
		n, err := groups.Open(cfg)
		must(t, err)
		c.nodes[i] = n
		if !n.WaitReady(patience) {
			t.Fatalf("%s is not ready", cfg.NodeID)
		}
		c.srvs[i], err = loop.New(counted{n, c, i}, loop.Options{NodeID: n.NodeID(), ClusterID: n.ClusterID(),
			RepeatMillis: groups.RepeatMillis, Log: quiet})
		must(t, err)
		_, err = c.srvs[i].Listen("tcp", c.addrs[i])
		must(t, err)
	}
	asks := dial(t, c.addrs[0])
	ctx := within(t, patience)
	eventually(t, "three nodes hold every log", func() bool {
		doc, err := asks.ClusterStatus(ctx)
		must(t, err)
		return doc.Healthy && len(doc.Nodes) == 3
	})
	return c
}

// kill ends a node without a word to anybody.
func (c *trio) kill(i int) {
	c.mu.Lock()
	c.cut[trioID(i)] = true
	c.mu.Unlock()
	c.close(i)
}

func (c *trio) close(i int) {
	if c.nodes[i] == nil {
		return
	}
	c.nodes[i].Close(0)
	if c.srvs[i] != nil {
		c.srvs[i].Close()
	}
	c.nodes[i] = nil
}

// TestLeadersAreTold: clients of every node are told by it, without asking, when the
// leadership of a log is handed over and when its leader was killed; and from then on they
// send what is about that log to the new leader itself, and to nobody else.
func TestLeadersAreTold(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	ctx := within(t, 2*patience)
	const path = "told:/a/x"
	clients, told := make([]*Client, 3), make([]<-chan *wire.Topology, 3)
	for i := range clients {
		clients[i] = dial(t, c.addrs[i])
		var err error
		told[i], err = clients[i].WatchTopology(ctx)
		must(t, err)
	}
	now := <-told[0]
	log := now.LogOf[wire.GroupOf("told:/a", int(now.GroupLogs))]
	// hears waits until a client is told that somebody else than one node leads the log.
	hears := func(i int, not string) (leader string) {
		t.Helper()
		for {
			select {
			case top, ok := <-told[i]:
				if !ok {
					t.Fatalf("the client of node %d is told nothing any more", i)
				}
				if leader = top.Leaders[log]; leader != "" && leader != not {
					return leader
				}
			case <-time.After(patience):
				t.Fatalf("the client of node %d is not told that %s leads no more", i, not)
			}
		}
	}
	// goesTo sees a client of some node send requests to the leader, and all of them from
	// when it has a connection to it.
	goesTo := func(i, leader int) {
		t.Helper()
		ask := func(times int) (at [3]int) {
			for range times {
				must(t, clients[i].Release(ctx, "nobody", []wire.ReleaseRequest{{Path: path}}, false, ""))
			}
			return c.took()
		}
		c.took()
		eventually(t, fmt.Sprintf("the client of node %d goes to node %d", i, leader),
			func() bool { return ask(1)[leader] == 1 })
		want := [3]int{}
		want[leader] = 20
		if at := ask(20); at != want {
			t.Errorf("the client of node %d sent 20 requests to the nodes %v, want all to node %d, which leads",
				i, at, leader)
		}
	}
	index := func(node string) int {
		for i := range c.nodes {
			if trioID(i) == node {
				return i
			}
		}
		t.Fatalf("%q is no node", node)
		return -1
	}

	leader := now.Leaders[log]
	for i := range clients {
		goesTo(i, index(leader))
	}
	next := trioID((index(leader) + 1) % 3)
	must(t, clients[0].TransferLog(ctx, wire.SystemLog+1+log, next))
	for i := range clients {
		if heard := hears(i, leader); heard != next {
			t.Fatalf("the client of node %d is told that %s leads, and it is %s", i, heard, next)
		}
		goesTo(i, index(next))
	}

	dead := index(next)
	c.kill(dead)
	var successor string
	for i := range clients {
		if i == dead {
			continue
		}
		heard := hears(i, next)
		if successor == "" {
			successor = heard
		}
		if heard != successor {
			t.Fatalf("one client is told that %s leads, and the other that %s does", successor, heard)
		}
	}
	for i := range clients {
		if i != dead {
			goesTo(i, index(successor))
		}
	}
}
