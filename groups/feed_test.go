package groups

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/mesh"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/internal/testkit/observed"
	"github.com/pathlockd/pathlockd/wire"
)

// TestClusterEvents: a subscriber at any node hears of its owner's grants, also of those
// in logs that the node has no replica of, each once and in order; after a node was lost
// too, or it is told of a gap.
func TestClusterEvents(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 5, nil)
	f.placed(5)
	c := newClusterClient(f.nodes[1])
	for i := range 60 { // so that there is something in every log
		c.mustAcquire(t, fmt.Sprintf("h:/before%d/x", i), "holder")
	}
	ears := make([]*observed.Events, 5)
	for i, n := range f.nodes {
		ears[i] = new(observed.Events)
		if _, err := n.Subscribe(&wire.Subscription{Owner: "waiter", Number: 1, Sink: ears[i]}); err != nil {
			t.Fatal(err)
		}
		f.until(n.id.NodeID+" is fed what it does not host", func() bool {
			for shard, l := range n.logs {
				if shard != rows.SystemLog && l.local.Load() == nil && n.hub.Where(shard).Index == 0 {
					return false
				}
			}
			return true
		})
	}
	round := func(from, to int) {
		for i := from; i < to; i++ {
			path := fmt.Sprintf("h:/e%d/x", i)
			c.mustAcquire(t, path, "holder")
			res := c.ask(t, &wire.Request{
				Op: wire.OpAcquire, Owner: "waiter", TTLMillis: 60_000, QueueTTLMillis: 60_000,
				Locks: []wire.LockRequest{{Path: path, Mode: wire.ModeWrite}},
			})
			if res.Status != wire.StatusQueued {
				t.Fatalf("%s: %+v", path, res)
			}
			c.ask(t, &wire.Request{Op: wire.OpRelease, Owner: "holder",
				Releases: []wire.ReleaseRequest{{Path: path, Mode: wire.ModeWrite}}})
		}
	}
	check := func(want int, skip int) {
		t.Helper()
		for i, e := range ears {
			if i == skip {
				continue
			}
			heard := within(20*time.Second, 10*time.Millisecond, func() bool {
				got, gaps := e.Told()
				sorted := slices.Compact(slices.Sorted(slices.Values(got)))
				if len(sorted) != len(got) {
					t.Fatalf("node %d heard something twice: %q", i, got)
				}
				return len(got) == want || gaps > 0 && skip >= 0
			})
			if !heard {
				got, gaps := e.Told()
				t.Fatalf("node %d heard %d of %d events and of %d gaps: %q", i, len(got), want, gaps, got)
			}
		}
	}
	round(0, 40) // over all logs
	check(40, -1)
	for i, e := range ears {
		if _, gaps := e.Told(); gaps > 0 {
			t.Errorf("node %d was told of %d gaps though nothing happened", i, gaps)
		}
	}
	lost := 0
	if err := f.nodes[lost].Close(0); err != nil {
		t.Fatal(err)
	}
	f.nodes[lost] = nil
	round(40, 80)
	check(80, lost)
}

// TestClusterFeedsFromLeaders: a node is fed by the leader of a log, also after that became
// another one, and nobody feeds it any more who need not: an old leader may be cut off
// from the log, and tell nothing for ever.
func TestClusterFeedsFromLeaders(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 5, nil)
	f.placed(5)
	fedBy := func(shard uint64, to *Node) (sources []string) {
		for _, n := range f.nodes {
			n.hub.Mu.Lock()
			if s := n.hub.Logs[shard]; s != nil {
				for _, conn := range s.Feeds {
					if conn.(*mesh.Conn).Peer().Host == to.id.HostID {
						sources = append(sources, n.id.NodeID)
					}
				}
			}
			n.hub.Mu.Unlock()
		}
		return sources
	}
	right := func() bool {
		for shard := range f.nodes[0].logs {
			lead := ""
			for _, n := range f.nodes {
				if n.logs[shard].leads() {
					lead = n.id.NodeID
				}
			}
			for _, n := range f.nodes {
				want := []string{lead}
				if n.logs[shard].local.Load() != nil {
					want = nil
				}
				if lead == "" || !slices.Equal(fedBy(shard, n), want) {
					return false
				}
			}
		}
		return true
	}
	f.until("every node is fed what it does not host, by the leaders", right)
	shard, moved := uint64(rows.FirstLog), false
	f.until("the leadership of log 2 moved", func() bool {
		for _, n := range f.nodes {
			for _, to := range f.nodes {
				if n != to && n.logs[shard].leads() && n.transferOwn(shard, to.id.NodeID) == nil {
					moved = true
				}
			}
		}
		return moved
	})
	f.until("every node is fed by the new leader alone", right)
}

// TestClusterSilence: who is fed hears that the node that feeds it has had no leader for long.
func TestClusterSilence(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 2, func(_ int, c *Config) { c.StabilityWindow, c.ReplicationFactor = time.Hour, 1 })
	e := new(observed.Events)
	if _, err := f.nodes[1].Subscribe(&wire.Subscription{Owner: "waiter", Number: 1, Sink: e}); err != nil {
		t.Fatal(err)
	}
	source := f.nodes[0].hub
	f.until("node 1 is fed", func() bool {
		source.Mu.Lock()
		defer source.Mu.Unlock()
		return len(source.Stream(rows.FirstLog).Feeds) == 1
	})
	_, before := e.Told()
	source.Silence(rows.FirstLog)
	f.until("node 1 is told of a gap", func() bool {
		_, gaps := e.Told()
		return gaps > before
	})
	// A connection that is gone takes what was fed over it along.
	if err := f.nodes[1].Close(0); err != nil {
		t.Fatal(err)
	}
	f.nodes[1] = nil
	f.until("nobody is fed any more", func() bool {
		source.Mu.Lock()
		defer source.Mu.Unlock()
		for _, s := range source.Logs {
			if len(s.Feeds) > 0 {
				return false
			}
		}
		return true
	})
}

// TestLongTexts: what is too long for a frame is not sent, since that would end the connection with everything else on
// it.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	told := toldText{Value: json.RawMessage(`"` + strings.Repeat("x", mesh.MaxFrameBytes) + `"`)}
	if b := told.frame(9); len(b) > mesh.MaxFrameBytes ||
		!strings.Contains(string(b), "more than nodes can tell each other") {
		t.Errorf("the answer has %d bytes", len(b))
	}
}

// TestFedWhileAnEntryIsTold: a node begins to be fed, and is told of progress, between two events of one entry. It
// hears each of them once.
func TestFedWhileAnEntryIsTold(t *testing.T) {
	t.Parallel()
	const shard = rows.FirstLog
	f := apart(t, nil)
	e := f.listen(1, 0, shard)
	a, b := f.nodes[0], f.nodes[1]
	before, _ := e.Told()
	at := a.hub.Where(shard).Index + 1
	two := []engine.Event{
		{Kind: wire.EventGrant, Owner: "waiter", Path: "h:/a/first"}, {Kind: wire.EventGrant, Owner: "waiter",
			Path: "h:/a/second"},
	}
	a.hub.Publish(shard, at, two[:1], false)
	a.hub.Mu.Lock()
	a.hub.TellProgress()
	a.hub.Mu.Unlock()
	a.hub.Feed(a.cluster.conn(b.id.HostID), b.hub.Where(shard))
	a.hub.Publish(shard, at, two, true)
	f.until("it hears of both", func() bool { got, _ := e.Told(); return len(got) >= len(before)+2 })
	a.hub.Publish(shard, at+1, two[:1], true)
	f.until("it hears of the next entry", func() bool {
		got, _ := e.Told()
		return len(got) > len(before)+2
	})
	if got, gaps := e.Told(); len(got) != len(before)+3 || gaps > 0 {
		t.Errorf("it hears %q, and of %d gaps", got[len(before):], gaps)
	}
}
