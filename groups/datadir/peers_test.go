package datadir

import (
	"fmt"
	"testing"

	"github.com/pathlockd/pathlockd/groups/gossip"
)

// sighted is a node as gossip shows it.
func sighted(host, node, addr string) gossip.Sighting {
	s := gossip.Sighting{Alive: true}
	s.HostID, s.NodeID, s.GossipAddr = host, node, addr
	return s
}

// TestPeersAreBounded: when there is no room to write further nodes down, those that are
// still move to where they are now.
func TestPeersAreBounded(t *testing.T) {
	var p Peers
	if err := p.Load(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	var seen []gossip.Sighting
	for i := range maxPeers + 1 {
		seen = append(seen, sighted(fmt.Sprint("host-", i), fmt.Sprint("n-", i), "before:1"))
	}
	take := func(seen ...gossip.Sighting) *File {
		t.Helper()
		f, err := p.Take(seen, "me")
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if f := take(seen...); f == nil || len(p.By) != maxPeers {
		t.Fatalf("%d of %d nodes are kept, at most %d may be", len(p.By), len(seen), maxPeers)
	}
	if f := take(sighted("host-0", "n-0", "after:1")); f == nil || p.By["host-0"].Gossip != "after:1" {
		t.Errorf("a node that moved is kept at %q", p.By["host-0"].Gossip)
	}
	if f := take(seen[maxPeers]); f != nil || p.By[seen[maxPeers].HostID].Node != "" {
		t.Errorf("there is room for one node more")
	}
	if !p.Forget("n-1") || p.Forget("n-1") {
		t.Errorf("a node is not forgotten once")
	}
	if f := take(seen[maxPeers]); f == nil || p.By[seen[maxPeers].HostID].Node == "" {
		t.Errorf("there is no room where a node was forgotten")
	}
	if f := take(seen[1]); f != nil {
		t.Errorf("there is room for the one that was forgotten, and it is taken")
	}
	if _, known := p.Names()["n-1"]; known || p.NodeOf("host-1") != "n-1" {
		t.Errorf("of a node that was forgotten, and may have replicas yet: known %v, name %q", known,
			p.NodeOf("host-1"))
	}
	take(sighted("host-2b", "n-2", "before:1"))
	if got := p.Names(); len(got) != maxPeers || got["n-2"].HostID != "host-2b" || p.NodeOf("host-2") != "n-2" {
		t.Errorf("one of %d nodes has a new disk: known as %+v, its former disk is of %q", len(got), got["n-2"],
			p.NodeOf("host-2"))
	}
	for range 2 { // as many at once as there may be, then more
		for i := range maxPeers {
			p.By[fmt.Sprint("former-", len(p.By), "-", i)] = Peer{Node: "former", Gossip: "before:1"}
		}
		p.Forget("former")
		if names := len(p.By) - len(p.Names()); names > maxPeers {
			t.Fatalf("the names of %d disks that were given up are kept, at most %d may be", names, maxPeers)
		}
	}
	if got := p.Names(); len(got) != maxPeers {
		t.Errorf("%d nodes are left beside them, want %d", len(got), maxPeers)
	}
}

// TestPeersHosts: where nodes are for raft is written down too, for certificates that name
// that host.
func TestPeersHosts(t *testing.T) {
	dir := t.TempDir()
	var p, again Peers
	if err := p.Load(dir); err != nil {
		t.Fatal(err)
	}
	s := sighted("host-1", "n-1", "10.0.0.1:7946")
	s.RaftAddr = "a.example:50052"
	f, err := p.Take([]gossip.Sighting{s}, "me")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Write(); err != nil {
		t.Fatal(err)
	}
	if err := again.Load(dir); err != nil {
		t.Fatal(err)
	}
	if got := again.Hosts(); len(got) != 1 || got[s.GossipAddr] != s.RaftAddr {
		t.Errorf("known as %v", got)
	}
}
