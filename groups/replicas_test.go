package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/rows"
)

// TestClusterReplicaStarts: a replica that could not be started when it was added is
// started when its leader asks again.
func TestClusterReplicaStarts(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 3, nil)
	f.settle(3)
	n := f.nodes[2]
	l := n.logs[rows.FirstLog]
	if l.leads() { // its leader has to ask
		f.until("another node leads", func() bool {
			return !l.leads() || n.transferOwn(l.shard, f.nodes[1].id.NodeID) == nil && !l.leads()
		})
	}
	m := l.local.Load()
	n.idLock.Lock()
	err := l.raft.Stop(m.Replica)
	<-m.Closed
	l.local.Store(nil)
	n.idLock.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	f.cfgs[2].Log.Info("stopped", "log", l.shard)
	for _, other := range f.nodes[:2] {
		other.lookAround()
	}
	f.until("the replica is there again", func() bool {
		again := l.local.Load()
		return again != nil && again.Loaded.Load() && again.Replica == m.Replica
	})
}

// TestClusterVoterFlag: a replica that joined starts right whatever identity.json says of
// its vote: after it was promoted, after a snapshot that knows that, and when the node
// ended between the snapshot and taking note of it.
func TestClusterVoterFlag(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 3, nil)
	f.settle(3)
	c := newClusterClient(f.nodes[0])
	for i := range 20 {
		c.mustAcquire(t, fmt.Sprintf("h:/v%d/x", i), "o")
	}
	votes := func(when string) {
		t.Helper()
		n := f.nodes[1]
		f.until("all replicas of node 1 vote "+when, func() bool {
			n.lookForVotes()
			if len(n.hosted()) != 5 {
				return false
			}
			for _, m := range n.hosted() {
				if !m.Voting.Load() {
					return false
				}
			}
			return true
		})
		for shard := range n.replicasHere() {
			f.until(fmt.Sprintf("node 1 leads log %d %s", shard, when), func() bool {
				if n.logs[shard].leads() {
					return true
				}
				host, _ := n.leaderOf(shard)
				for _, o := range f.nodes {
					if o.id.HostID == host {
						_ = o.transferOwn(shard, n.id.NodeID)
					}
				}
				return n.logs[shard].leads()
			})
		}
	}
	again := func(change func(id *datadir.Identity)) {
		t.Helper()
		if err := f.nodes[1].Close(2 * time.Second); err != nil {
			t.Fatal(err)
		}
		f.nodes[1] = nil
		if change != nil {
			id, err := datadir.Load(f.cfgs[1].DataDir)
			if err != nil {
				t.Fatal(err)
			}
			change(id)
			if err := id.Save(f.cfgs[1].DataDir); err != nil {
				t.Fatal(err)
			}
		}
		f.start(1)
	}
	votes("once promoted")
	again(nil)
	votes("after a restart before any snapshot")
	for shard := range f.nodes[1].replicasHere() {
		f.nodes[1].snapshot(shard)
	}
	for shard, s := range f.nodes[1].replicasHere() {
		if !s.Voter {
			t.Fatalf("log %d: the snapshot knows a voter, and identity.json does not: %+v", shard, s)
		}
	}
	again(nil)
	votes("after a snapshot")
	again(func(id *datadir.Identity) {
		for shard, s := range id.Replicas {
			s.Voter = false
			id.Replicas[shard] = s
		}
	})
	votes("though the flag was lost")
	for shard, s := range f.nodes[1].replicasHere() {
		if !s.Voter {
			t.Errorf("log %d: the flag is not set again: %+v", shard, s)
		}
	}
	f.settle(3)
}
