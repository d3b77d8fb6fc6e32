package groups

import (
	"fmt"
	"testing"

	"github.com/pathlockd/pathlockd/groups/members"
)

// sighted is a node as gossip shows it.
func sighted(host, node, addr string) members.Sighting {
	s := members.Sighting{Alive: true}
	s.HostID, s.NodeID, s.GossipAddr = host, node, addr
	return s
}

// TestPeersAreBounded: when there is no room to write further nodes down, those that are
// still move to where they are now.
func TestPeersAreBounded(t *testing.T) {
	var p peers
	if err := p.load(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	var seen []members.Sighting
	for i := range maxPeers + 1 {
		seen = append(seen, sighted(fmt.Sprint("host-", i), fmt.Sprint("n-", i), "before:1"))
	}
	take := func(seen ...members.Sighting) *file {
		t.Helper()
		f, err := p.take(seen, "me")
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if f := take(seen...); f == nil || len(p.by) != maxPeers {
		t.Fatalf("%d of %d nodes are kept, at most %d may be", len(p.by), len(seen), maxPeers)
	}
	if f := take(sighted("host-0", "n-0", "after:1")); f == nil || p.by["host-0"].Gossip != "after:1" {
		t.Errorf("a node that moved is kept at %q", p.by["host-0"].Gossip)
	}
	if f := take(seen[maxPeers]); f != nil || p.by[seen[maxPeers].HostID].Node != "" {
		t.Errorf("there is room for one node more")
	}
	p.forget("n-1")
	if f := take(seen[maxPeers]); f == nil || p.by[seen[maxPeers].HostID].Node == "" {
		t.Errorf("there is no room where a node was forgotten")
	}
}
