package groups

import (
	"testing"

	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
)

// TestDroppedReplica: a replica that was deleted never comes back under its id, also
// when its leader still counts on it, and nothing of it is left for the one after it.
func TestDroppedReplica(t *testing.T) {
	t.Parallel()
	f := calm(t, nil)
	n := f.nodes[2]
	const shard = rows.FirstLog
	m := n.logs[shard].local.Load()
	f.until("it has applied something", func() bool { return m.AppliedIndex() > 0 })
	row := replica.LogKey(shard, 'a', nil)
	there := func() bool { // the next one has a row too, once a checkpoint is due: nothing is applied there
		t.Helper()
		var s rows.State
		_, err := n.store.Get(row, func(val []byte) (err error) {
			s, err = rows.ParseState(val)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return s.Applied > 0
	}
	if err := m.Checkpoint(true); err != nil || !there() {
		t.Fatalf("no row of the log is on disk: %v", err)
	}
	if err := n.dropReplica(shard, m.Replica+1); err != nil || n.logs[shard].local.Load() != m {
		t.Fatalf("an order about another replica deleted this one: %v", err)
	}
	// A loss of its leader is noted, as where it is taken out because it does not hear of it: it says nothing of the
	// next one, of which raft tells nothing at first.
	n.noteLost(shard, true)
	lost := func() (lostLeader, bool) {
		n.leaders.mu.Lock()
		defer n.leaders.mu.Unlock()
		is, ok := n.leaders.lost[shard]
		return is, ok
	}
	if err := n.dropReplica(shard, m.Replica); err != nil {
		t.Fatal(err)
	}
	if _, is := lost(); is {
		t.Error("what it has lost is noted still")
	}
	if err := m.Checkpoint(true); err != nil || there() {
		t.Errorf("its rows are on disk again: %v", err)
	}
	for replica := range m.Replica + 1 { // what leaders ask that know nothing of it
		if err := n.addReplica(shard, replica); err != nil {
			t.Fatal(err)
		}
		if _, sits := n.replicasHere()[shard]; sits {
			t.Fatalf("replica %d sits where %d was deleted", replica, m.Replica)
		}
	}
	again, err := datadir.Load(n.cfg.DataDir)
	if err != nil || again.Dropped[shard] != m.Replica || again.Replicas[shard] != (datadir.Replica{}) {
		t.Errorf("identity.json has %+v, %+v (%v)", again.Dropped, again.Replicas, err)
	}

	gone := func(is bool) {
		m.Checkpoints.Lock() // the node may be about to take one, and finds out here
		defer m.Checkpoints.Unlock()
		m.Gone = is
	}
	leave := func() { // as a crash in the middle would
		t.Helper()
		gone(false)
		if err := m.Checkpoint(true); err != nil || !there() {
			t.Fatalf("no row of the log is on disk: %v", err)
		}
		gone(true)
	}
	leave()
	if err := n.leftovers(); err != nil || there() {
		t.Errorf("a start leaves what a crash left: %v", err)
	}
	leave()
	n.noteLost(shard, true) // raft may tell it late
	before, _ := lost()
	if err := n.addReplica(shard, m.Replica+100); err != nil {
		t.Fatal(err)
	}
	switch now, is := lost(); {
	case is && now.since == before.since:
		t.Error("what was lost before is noted of the next replica")
	case !is && n.logs[shard].lead.Load().leader == 0:
		t.Error("that the next replica knows of no leader yet is not noted")
	}
	n.leaderUpdated(shard, m.Replica, 1<<20, 1)
	if n.logs[shard].lead.Load().term == 1<<20 {
		t.Error("what raft tells late of the deleted replica counts for the next one")
	}
	next := n.logs[shard].local.Load()
	f.until("the next replica is loaded", next.Loaded.Load)
	if at := next.AppliedIndex(); at != 0 || there() {
		t.Errorf("the next replica begins at %d; rows of the one before are there: %v", at, there())
	}
}
