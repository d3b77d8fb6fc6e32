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
	if _, known := p.by["host-1"]; known || p.nodeOf("host-1") != "n-1" {
		t.Errorf("of a node that was forgotten, and may have replicas yet: known %v, name %q", known, p.nodeOf("host-1"))
	}
	for i := range maxPeers + 1 {
		p.by = map[string]peer{fmt.Sprint("former-", i): {Node: "former"}}
		p.forget("former")
		if len(p.gone) > maxPeers {
			t.Fatalf("the names of %d nodes that were forgotten are kept, at most %d may be", len(p.gone), maxPeers)
		}
	}
}

// TestPeersHosts: where nodes are for raft is written down too, for certificates that name
// that host.
func TestPeersHosts(t *testing.T) {
	dir := t.TempDir()
	var p, again peers
	if err := p.load(dir); err != nil {
		t.Fatal(err)
	}
	s := sighted("host-1", "n-1", "10.0.0.1:7946")
	s.RaftAddr = "a.example:50052"
	f, err := p.take([]members.Sighting{s}, "me")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.write(); err != nil {
		t.Fatal(err)
	}
	if err := again.load(dir); err != nil {
		t.Fatal(err)
	}
	if got := again.hosts(); len(got) != 1 || got[s.GossipAddr] != s.RaftAddr {
		t.Errorf("known as %v", got)
	}
}
