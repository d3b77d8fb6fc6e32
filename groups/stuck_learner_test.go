package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/place"
)

// TestStuckLearner: a replica that makes no headway though its node is there is made anew by
// the log's leader, and nobody has to do anything. Here a node believes that it has given the
// replicas up that it is to start.
func TestStuckLearner(t *testing.T) {
	t.Parallel()
	change := func(_ int, c *Config) { c.LogCount, c.StabilityWindow = 1, 2*time.Second }
	f := newLocalCluster(t, 2, change)
	n := f.grow(change)
	n.seats.Lock()
	for _, shard := range n.id.shards() {
		n.id.Dropped[shard] = 3 // replicas 2 and 3 are added at first
	}
	n.seats.Unlock()
	f.settle(3)
	for _, shard := range n.id.shards() {
		if s := n.seatsNow()[shard]; s.Replica <= 3 {
			t.Errorf("log %d: replica %d was started", shard, s.Replica)
		}
	}
}

// TestHeadway: who is stuck, by when, and that the next one is given twice the time.
func TestHeadway(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.EvictionWindow = time.Minute })
	p := &placing{n: r.node}
	nodes := map[string]place.Node{"a": {Alive: true}, "b": {Alive: true}}
	at := time.Duration(0)
	learner := place.Replica{ID: 2, Node: "b", Disk: "disk-b"}
	look := func(what string, after time.Duration, want bool) {
		t.Helper()
		at += after
		l := place.Log{ID: 5, Applied: 9000, Replicas: []place.Replica{{ID: 1, Node: "a", Disk: "disk-a", Voting: true, Applied: 9000}, learner}}
		heads := make(map[learnerAt]headway)
		p.watch(at, &l, nodes, heads)
		p.heads = heads
		if l.Replicas[1].Stuck != want {
			t.Errorf("%s: stuck %v", what, !want)
		}
	}
	look("added", 0, false)
	look("at nothing, and not for long enough", 2*time.Minute-1, false)
	learner.Applied = 1
	look("it moves", 1, false)
	look("and stands still", 2*time.Minute-1, false)
	nodes["b"] = place.Node{}
	look("its node is not seen", time.Minute, false)
	nodes["b"] = place.Node{Alive: true}
	look("its node is back", 2*time.Minute-1, false)
	look("for too long", 1, true)
	look("that was told", time.Minute, false)
	learner = place.Replica{ID: 3, Node: "b", Disk: "disk-b"}
	look("another one", time.Minute, false)
	look("it is given more time", 4*time.Minute-1, false)
	learner.Applied = 8500
	look("it has caught up", time.Hour, false)
	learner.Applied = 10
	look("it has not", time.Hour, true)
}

// TestWaitsInVain: when a log with one voter is to be led anew, and how often.
func TestWaitsInVain(t *testing.T) {
	const self, other, shard = "disk-a", "disk-b", 5
	p := new(placing)
	log := func(version uint64, votes bool, applied uint64) *place.Log {
		return &place.Log{ID: shard, Version: version, Self: 1, Applied: 9, Replicas: []place.Replica{
			{ID: 1, Disk: self, Voting: true, Applied: 9}, {ID: 2, Disk: other, Voting: votes, Applied: applied},
		}}
	}
	heads := map[learnerAt]headway{{shard, 2}: {since: time.Minute}}
	runs := map[seatAt]uint64{{self, shard}: 9, {other, shard}: 0}
	late := time.Minute + releadAfter
	for _, one := range []struct {
		what string
		at   time.Duration
		log  *place.Log
		runs map[seatAt]uint64
		want bool
	}{
		{"it has come further a moment ago", late - 1, log(7, false, 0), runs, false},
		{"it does not run there", late, log(7, false, 0), map[seatAt]uint64{{self, shard}: 9}, false},
		{"it votes", late, log(7, true, 0), runs, false},
		{"it is as far as the leader", late, log(7, false, 9), runs, false},
		{"it comes no further", late, log(7, false, 0), runs, true},
		{"it comes no further still", late + time.Hour, log(7, false, 0), runs, false},
		{"it comes no further, and the members have changed", late, log(8, false, 0), runs, true},
	} {
		if got := p.waitsInVain(one.at, one.log, heads, one.runs); got != one.want {
			t.Errorf("%s: %v", one.what, got)
		}
	}
}
