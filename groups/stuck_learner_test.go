package groups

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/link"
	"github.com/pathlockd/pathlockd/groups/place"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestStuckLearner: a replica that makes no headway though its node is there is made anew by
// the log's leader, and nobody has to do anything. Here a node believes that it has given the
// replicas up that it is to start.
func TestStuckLearner(t *testing.T) {
	t.Parallel()
	change := func(i int, c *Config) {
		evicts(i, c)
		c.LogCount, c.StabilityWindow = 1, 2*time.Second
	}
	f := newLocalCluster(t, 2, change)
	n := f.grow(change)
	n.idLock.Lock()
	for _, shard := range n.id.Logs() {
		n.id.Dropped[shard] = 3 // replicas 2 and 3 are added at first
	}
	n.idLock.Unlock()
	f.settle(3)
	for _, shard := range n.id.Logs() {
		if s := n.replicasHere()[shard]; s.ID <= 3 {
			t.Errorf("log %d: replica %d was started", shard, s.ID)
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
		l := place.Log{ID: 5, Applied: 9000,
			Replicas: []place.Replica{{ID: 1, Node: "a", Disk: "disk-a", Voting: true, Applied: 9000}, learner}}
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
	const self, other, third, shard = "disk-a", "disk-b", "disk-c", 5
	p := &placing{n: &Node{cfg: Config{EvictionWindow: 24 * time.Hour}}}
	nodes := map[string]place.Node{"b": {ID: "b", Disk: other, Alive: true}, "c": {ID: "c", Disk: third, Alive: true}}
	now := time.Duration(0)
	for _, one := range []struct {
		what        string
		after       time.Duration
		version     uint64
		votes, runs bool
		leads, has  uint64
		want        bool
	}{
		{"it was added", 0, 7, false, true, 9, 0, false},
		{"it comes no further, for a moment", releadAfter - 1, 7, false, true, 9, 0, false},
		{"it does not run there", time.Minute, 7, false, false, 9, 0, false},
		{"it votes", time.Minute, 7, true, true, 9, 0, false},
		{"it is as far as the leader", time.Minute, 7, false, true, 9, 9, false},
		{"it stays so, as nothing is written", time.Minute, 7, false, true, 9, 9, false},
		{"and was a second ago", time.Second, 7, false, true, 10, 9, false},
		{"it comes no further", releadAfter, 7, false, true, 10, 9, true},
		{"nor does it then", time.Hour, 7, false, true, 11, 9, false},
		{"another one is made", time.Hour, 8, false, true, 11, 0, false},
		{"and comes no further", time.Hour, 8, false, true, 11, 0, false},
		{"it votes at last", time.Minute, 9, true, true, 11, 11, false},
		{"it has lost its vote", time.Minute, 10, false, true, 12, 0, false},
		{"and comes no further then", releadAfter, 10, false, true, 12, 0, true},
	} {
		now += one.after
		l := &place.Log{ID: shard, Version: one.version, Self: 1, Applied: one.leads, Replicas: []place.Replica{
			{ID: 1, Disk: self, Voting: true, Applied: one.leads},
			{ID: 2, Node: "b", Disk: other, Voting: one.votes, Applied: one.has},
			{ID: 3, Node: "c", Disk: third, Applied: one.leads}, // which is well
		}}
		applied := map[replicaAt]uint64{{self, shard}: one.leads, {third, shard}: one.leads}
		if one.runs {
			applied[replicaAt{other, shard}] = one.has
		}
		heads := make(map[learnerAt]headway)
		p.watch(now, l, nodes, heads)
		if got := p.waitsInVain(now, l, heads, applied); got != one.want {
			t.Errorf("%s: %v", one.what, got)
		}
		p.heads = heads
	}
}

// TestLedAnewAtWork: a log with one voter, on a disk that takes its time, is led anew by its node without an election
// timeout, also while entries are under way.
func TestLedAnewAtWork(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 1, func(_ int, c *Config) {
		c.LogCount, c.ElectionMin, c.RaftFS, c.FS = 1, 10*time.Second, nil, nil
	})
	n, l := f.nodes[0], f.nodes[0].logs[rows.FirstLog]
	f.until("it leads", l.leads)
	stop := make(chan struct{})
	var load sync.WaitGroup
	defer load.Wait()
	defer close(stop)
	r := f.rigOn(0)
	var written atomic.Int64
	for i := range 16 {
		c := r.session()
		load.Go(func() {
			for {
				o := c.start(r.next.Add(1), write(fmt.Sprint("o", i), fmt.Sprint("h:/load/", i), time.Hour))
				select {
				case res := <-o.done:
					if res.Code != wire.OK {
						t.Errorf("a write while the log is led anew: %v", res.Message)
					}
					written.Add(1)
				case <-stop:
					return
				}
			}
		})
	}
	for range 3 {
		f.until("it is at work", func() bool { return written.Load() > 100 })
		term, began := l.mine(), time.Now()
		n.running.Go(func() { n.relead(l, l.local.Load().Replica, term) })
		f.until("it leads in a later term", func() bool { return l.leads() && l.mine() > term })
		if d := time.Since(began); d > 5*time.Second { // it stands for election anew after 10 s to 20 s
			t.Errorf("it had no leader for %v", d)
		}
		written.Store(0)
	}
}

// TestLedAnewAlone: a log that has other voters is not led anew, whatever the round took it for.
func TestLedAnewAlone(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 3, func(_ int, c *Config) { c.LogCount, c.LeaderBalance = 1, time.Hour })
	f.until("the log has three voters", func() bool {
		for _, n := range f.nodes {
			if m := n.logs[rows.FirstLog].local.Load(); m == nil || !m.Voting.Load() {
				return false
			}
		}
		return true
	})
	n := f.nodes[f.leader("h:/x")]
	l := n.logs[rows.FirstLog]
	term, replica := l.mine(), l.local.Load().Replica
	n.relead(l, replica, term)
	if now := l.mine(); now != term {
		t.Fatalf("a log with three voters was led anew: term %d, and %d before", now, term)
	}
}

// lostRaft is a network that loses what one node's raft sends another's.
type lostRaft struct {
	network
	from, to string
}

// Outgoing implements link.Faults.
func (w *lostRaft) Outgoing(p link.Passage) link.Fate {
	fate := w.network.Outgoing(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	fate.Drop = fate.Drop || p.Kind == link.Messages && p.From == w.from && p.To == w.to
	return fate
}

// TestLearnerKnowsItsLeader: a node is given a replica without a vote, which raft's messages do not reach. It knows who
// leads and reaches it: it is ready, and refuses nobody because of that. Once the leader is dead it says so, and lets
// nobody wait who does not want to; nor does a node that has no replica.
func TestLearnerKnowsItsLeader(t *testing.T) {
	t.Parallel()
	for _, learns := range []bool{true, false} {
		t.Run(map[bool]string{true: "a learner", false: "no replica"}[learns],
			func(t *testing.T) { learnerKnowsItsLeader(t, learns) })
	}
}

func learnerKnowsItsLeader(t *testing.T, learns bool) {
	w := new(lostRaft)
	change := func(_ int, c *Config) {
		c.Faults, c.LogCount, c.EvictionWindow, c.RequestTimeout = w, 1, time.Hour, time.Minute
	}
	f := newLocalCluster(t, 2, change)
	n, r := f.nodes[1], f.rigOn(1)
	f.until("the forwarder is ready", func() bool { return n.health().Flag })
	hasty := func(path string) *wire.Request {
		req := write("o", path, time.Hour)
		req.Flags |= wire.FlagNoQueue
		return req
	}
	f.until("a write passes", func() bool { return r.session().ask(hasty("h:/x")).Code == wire.OK })
	if len(n.replicasHere()) != 0 {
		t.Fatal("this shows nothing: it hosts something already")
	}
	l := n.logs[rows.FirstLog]
	if learns {
		w.mu.Lock()
		w.from, w.to = f.nodes[0].id.NodeID, n.id.NodeID
		w.mu.Unlock()
		f.grow(change)
		f.until("it has a replica", func() bool { return l.local.Load() != nil })
	}
	since := time.Now()
	f.until("raft has told it of no leader for longer than an election takes", func() bool {
		if l.lead.Load().leader != 0 {
			since = time.Now()
		}
		return time.Since(since) > n.electedWithin()+500*time.Millisecond
	})
	if h := n.health(); !h.Flag {
		t.Errorf("health: %s", h.Message)
	}
	var all sync.WaitGroup
	for k := range 8 {
		all.Go(func() {
			for i := range 200 {
				if res := r.session().ask(hasty(fmt.Sprintf("h:/x/%d-%d", k, i))); res.Code != wire.OK {
					t.Errorf("%v %s", res.Code, res.Message)
					return
				}
			}
		})
	}
	all.Wait()

	f.kill(&w.network, 0)
	f.until("it says that the log has no leader", func() bool { return slices.Contains(n.leaderless(), rows.FirstLog) })
	if h := n.health(); h.Flag || !strings.Contains(h.Message, "has had no leader") {
		t.Errorf("the leader is dead, and health says %v %q", h.Flag, h.Message)
	}
	o := r.session().start(r.next.Add(1), hasty("h:/y"))
	select {
	case res := <-o.done:
		if res.Code == wire.OK {
			t.Errorf("a write without a leader: %v", res.Code)
		}
	case <-time.After(n.electedWithin() + 20*time.Second):
		t.Error("who does not want to wait waits for a leader that is dead")
	}
}
