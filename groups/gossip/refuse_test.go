package gossip

import (
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/memberlist"
)

// TestOtherToken has a node with another token meet a cluster: neither learns of the
// other, and both say why.
func TestOtherToken(t *testing.T) {
	t.Parallel()
	a := start(t, 1)
	b := start(t, 2, seeds(a))
	allSee(t, a, b)
	c := start(t, 3, seeds(a), func(c *Config) { c.Token += "!" })
	eventually(t, "the stranger knows why", func() bool { return errors.Is(c.Fault(), ErrToken) })
	if text := c.Fault().Error(); !strings.Contains(text, a.GossipAddr()) ||
		!strings.Contains(text, "internal_auth_token") {
		t.Errorf("the stranger is told %q, want the address and the key to mend", text)
	}
	eventually(t, "the member says why", func() bool {
		return len(a.log.lines("level=WARN", "internal_auth_token", "peer=127.0.0.1")) > 0
	})
	// It tries some more times, which must not be said each time.
	eventually(t, "more tries", func() bool { return len(c.log.lines("Initiating push/pull sync with")) >= 5 })
	if n := len(a.log.lines("level=WARN", "internal_auth_token")); n != 1 {
		t.Errorf("%d warnings about one stranger, want 1", n)
	}
	if !a.knows("node-1", "node-2") || !b.knows("node-1", "node-2") || !c.knows("node-3") {
		t.Error("somebody took the stranger in, or the stranger somebody")
	}
}

// TestOtherCluster has nodes of two clusters meet, each way round.
func TestOtherCluster(t *testing.T) {
	t.Parallel()
	b := self(func(r *Record) { r.ClusterID = clusterB })
	a1 := start(t, 1)
	a2 := start(t, 2, seeds(a1))
	b3 := start(t, 3, b)
	allSee(t, a1, a2)
	b4 := start(t, 4, b, seeds(b3, a1)) // a seed too many
	allSee(t, b3, b4)
	eventually(t, "the member that was met says so", func() bool {
		return len(a1.log.lines("level=WARN", "another cluster", clusterA, clusterB, "seed_nodes")) > 0
	})
	eventually(t, "the one that came says so", func() bool {
		return len(b4.log.lines("level=WARN", "another cluster", clusterA, clusterB)) > 0
	})
	// One that is alone is told why it stays so.
	b5 := start(t, 5, b, seeds(a2), self(func(r *Record) { r.State = Joining }))
	eventually(t, "the stranger knows why", func() bool { return errors.Is(b5.Fault(), ErrCluster) })
	for _, id := range []string{clusterA, clusterB} {
		if !strings.Contains(b5.Fault().Error(), id) {
			t.Errorf("the stranger is told %q, want both cluster ids", b5.Fault())
		}
	}
	eventually(t, "more tries", func() bool { return len(b5.log.lines("Initiating push/pull sync with")) >= 5 })
	if !a1.knows("node-1", "node-2") || !a2.knows("node-1", "node-2") || !b3.knows("node-3", "node-4") ||
		!b4.knows("node-3", "node-4") || !b5.knows("node-5") {
		t.Error("a view changed")
	}
	for _, n := range []*node{a1, a2, b3} {
		if err := n.Fault(); err != nil {
			t.Errorf("%s, which has its cluster about it, takes itself for refused: %v", n.name, err)
		}
	}
}

// TestNodeIDInUse starts a second node under an id that is in use. When the first is
// gone it is let in, as a node is whose disk was replaced.
func TestNodeIDInUse(t *testing.T) {
	t.Parallel()
	a := start(t, 1)
	b := start(t, 2, seeds(a))
	c := start(t, 3, seeds(a))
	allSee(t, a, b, c)
	twin := start(t, 2, seeds(a, b), self(func(r *Record) { r.HostID, r.State = hostID(9), Joining }))
	eventually(t, "the twin knows why", func() bool { return errors.Is(twin.Fault(), ErrNodeID) })
	for _, word := range []string{"node-2", hostID(9), hostID(2), "another node_id"} {
		if !strings.Contains(twin.Fault().Error(), word) {
			t.Errorf("the twin is told %q, want %q in it", twin.Fault(), word)
		}
	}
	eventually(t, "the others say so", func() bool {
		return len(a.log.lines("level=WARN", "node id is in use", hostID(9), "another node_id")) > 0
	})
	for _, n := range []*node{a, c} {
		if s, _ := n.view("node-2"); s.HostID != hostID(2) {
			t.Errorf("%s let the twin in", n.name)
		}
	}
	if !twin.knows("node-2") {
		t.Error("the twin took the others in")
	}
	if err := b.Fault(); err != nil {
		t.Errorf("who had the id first takes itself for refused: %v", err)
	}
	b.kill()
	allSee(t, a, c, twin)
	eventually(t, "the twin is at peace", func() bool { return twin.Fault() == nil })
	eventually(t, "the change is logged", func() bool {
		return len(a.log.lines("level=INFO", "cluster node replaced",
			"node-2")) == 1
	})
}

// TestCopiedDataDirectory runs one data directory twice. The others follow the later
// start, and the earlier is told.
func TestCopiedDataDirectory(t *testing.T) {
	t.Parallel()
	a := start(t, 1)
	b := start(t, 2, seeds(a))
	allSee(t, a, b)
	copied := b.again(seeds(a))
	eventually(t, "the first knows", func() bool { return errors.Is(b.Fault(), ErrStale) })
	if text := b.Fault().Error(); !strings.Contains(text, "data_dir") || !strings.Contains(text, "node-2") {
		t.Errorf("the first is told %q", text)
	}
	eventually(t, "a follows the later one", func() bool { return a.sees(a, copied) })
	b.kill()
	allSee(t, a, copied)
}

// TestSameStartTwice runs one data directory twice with the same incarnation, as two
// machines made from one image do.
func TestSameStartTwice(t *testing.T) {
	t.Parallel()
	a := start(t, 1)
	b := start(t, 2, seeds(a))
	allSee(t, a, b)
	copied := start(t, 2, seeds(a))
	eventually(t, "the second knows", func() bool { return errors.Is(copied.Fault(), ErrNodeID) })
	if text := copied.Fault().Error(); !strings.Contains(text, b.GossipAddr()) ||
		!strings.Contains(text, copied.GossipAddr()) {
		t.Errorf("the second is told %q, want both addresses", text)
	}
	if s, _ := a.view("node-2"); s.GossipAddr != b.GossipAddr() {
		t.Error("a follows the second")
	}
}

// TestTold is told by somebody that it is refused: who founded the cluster, or has others
// about it, takes the other for the one that strayed, save where it is itself what is wrong.
func TestTold(t *testing.T) {
	t.Parallel()
	founder := start(t, 1)
	inside := start(t, 2, seeds(founder))
	comes := start(t, 3, func(c *Config) { c.Seeds = []string{nobody(t)} }, self(func(r *Record) { r.State = Joining }))
	allSee(t, founder, inside)
	for _, reason := range []error{ErrCluster, ErrFormat, ErrRecord} {
		for _, n := range []*node{founder, inside} {
			if n.told(refuse(reason, "told")); n.Fault() != nil {
				t.Errorf("%s takes itself for the one that strayed: %v", n.name, n.Fault())
			}
		}
		if comes.told(refuse(reason, "told")); !errors.Is(comes.Fault(), reason) {
			t.Errorf("who comes is told %v and says %v", reason, comes.Fault())
		}
	}
	if inside.told(refuse(ErrStale, "told")); !errors.Is(inside.Fault(), ErrStale) {
		t.Errorf("an earlier start says %v", inside.Fault())
	}
}

// TestConflict hears that one start speaks from two addresses: this node's is its fault,
// another's is not.
func TestConflict(t *testing.T) {
	t.Parallel()
	a := start(t, 1)
	b := start(t, 2, seeds(a))
	allSee(t, a, b)
	d := delegate{b.Members}
	own, other := b.table.self(), a.table.self()
	d.NotifyConflict(said(other, 1), said(other, 2))
	if err := b.Fault(); err != nil {
		t.Errorf("another's copy is a fault of this node: %v", err)
	}
	d.NotifyConflict(said(own, 1), said(own, 2))
	if err := b.Fault(); !errors.Is(err, ErrNodeID) ||
		!strings.Contains(err.Error(), "127.0.0.1:1 and from 127.0.0.1:2") {
		t.Errorf("its own copy: %v", err)
	}
}

// TestFormats refuses a node whose formats do not overlap with the cluster's.
func TestFormats(t *testing.T) {
	t.Parallel()
	formats := func(low, high uint32) func(*Config) {
		return self(func(r *Record) { r.FormatMin, r.FormatMax = low, high })
	}
	a := start(t, 1, formats(1, 2))
	b := start(t, 2, formats(2, 3), seeds(a)) // one version ahead
	allSee(t, a, b)
	c := start(t, 3, formats(3, 4), seeds(a), self(func(r *Record) { r.State = Joining })) // two
	eventually(t, "the newcomer knows why", func() bool { return errors.Is(c.Fault(), ErrFormat) })
	if text := c.Fault().Error(); !strings.Contains(text, "1 to 2") || !strings.Contains(text, "3 to 4") {
		t.Errorf("the newcomer is told %q, want the formats of both", text)
	}
	if !a.knows("node-1", "node-2") || !b.knows("node-1", "node-2") || !c.knows("node-3") {
		t.Error("a view changed")
	}
	for _, n := range []*node{a, b} {
		if err := n.Fault(); err != nil {
			t.Errorf("%s takes itself for refused: %v", n.name, err)
		}
	}
}

// TestMerge lists whom a node exchanges everything with, and whom nothing: a founder
// that is alone, one that comes, and one that has others about it.
func TestMerge(t *testing.T) {
	t.Parallel()
	founder := start(t, 1)
	comes := start(t, 2, self(func(r *Record) { r.State = Joining }))
	inside := start(t, 3)
	allSee(t, inside, start(t, 4, seeds(inside)))
	peer := func(state memberlist.NodeStateType, change func(*Record)) *memberlist.Node {
		r := sample()
		change(&r)
		n := said(r, 9)
		n.State = state
		return n
	}
	good := peer(memberlist.StateAlive, func(*Record) {})
	stranger := func(r *Record) { r.ClusterID = clusterB }
	twin := func(id string) func(*Record) { return func(r *Record) { r.NodeID = id } }
	ahead := func(r *Record) { r.FormatMin, r.FormatMax = 9, 9 }
	for name, c := range map[string]struct {
		at    *node
		peers []*memberlist.Node
		want  error
	}{
		"one of ours": {founder, []*memberlist.Node{good}, nil},
		"a stranger": {founder, []*memberlist.Node{good, peer(memberlist.StateAlive, stranger)},
			ErrCluster},
		"a stranger under suspicion": {founder, []*memberlist.Node{good, peer(memberlist.StateSuspect, stranger)},
			ErrCluster},
		"a stranger that is gone": {founder, []*memberlist.Node{good, peer(memberlist.StateDead, stranger),
			peer(memberlist.StateLeft, stranger)}, nil},
		"our node id": {founder, []*memberlist.Node{peer(memberlist.StateAlive, twin("node-1"))},
			ErrNodeID},
		"our node id, gone":          {founder, []*memberlist.Node{peer(memberlist.StateDead, twin("node-1"))}, nil},
		"other formats":              {comes, []*memberlist.Node{peer(memberlist.StateAlive, ahead)}, ErrFormat},
		"other formats, of one more": {inside, []*memberlist.Node{good, peer(memberlist.StateAlive, ahead)}, nil},
		"who asks": {founder,
			[]*memberlist.Node{peer(memberlist.StateAlive, func(r *Record) { *r = Record{} })}, errAsking},
		"itself":    {founder, []*memberlist.Node{{Name: founder.name}}, errSelf},
		"no record": {founder, []*memberlist.Node{{Name: "consul"}}, ErrRecord},
	} {
		if err := (delegate{c.at.Members}).NotifyMerge(c.peers); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if err := founder.Fault(); err == nil || !errors.Is(err, ErrNodeID) {
		t.Errorf("two members with one node id: the founder's fault is %v", err)
	}
}
