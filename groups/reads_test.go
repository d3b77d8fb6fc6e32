package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/place"
	"github.com/pathlockd/pathlockd/groups/raft"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// taken is a cluster of three, of which one node loses its replica of the log of a path: the
// leader removes it. It does not notice by itself.
func taken(t *testing.T, path string, told bool) (f *localCluster, at int, shard, replica uint64) {
	f = newLocalCluster(t, 3, func(_ int, c *Config) {
		c.AuditEvery, c.EvictionWindow, c.RequestTimeout = time.Hour, time.Hour, time.Minute
	})
	f.settle(3)
	f.rigOn(0).session().must(write("o", path, time.Hour))
	for _, n := range f.nodes { // nobody brings it back
		n.idLock.Lock()
		n.id.Restored = true
		n.idLock.Unlock()
	}
	leads := f.leader(path)
	n, at := f.nodes[leads], (leads+1)%3
	l := n.logOf(n.groupOf(n.routes.Load().Resolve(path)))
	replica = f.nodes[at].logs[l.shard].local.Load().Replica
	if !told {
		f.nodes[at].idLock.Lock() // whatever it finds out, it keeps the replica
		t.Cleanup(f.nodes[at].idLock.Unlock)
	}
	f.until("the replica is removed", func() bool {
		ms, err := n.membership(l.shard)
		if err != nil {
			return false
		}
		step := place.Step{Kind: place.Remove, Log: l.shard, Replica: replica, Version: ms.Version}
		if told {
			step.Disk = f.nodes[at].id.HostID
		}
		return n.carry(step) == nil
	})
	return f, at, l.shard, replica
}

// TestReadsPassARemovedReplica: reads at a node whose replica was removed from the log are
// answered by the leader, long before their minute is over: raft answers them never.
func TestReadsPassARemovedReplica(t *testing.T) {
	t.Parallel()
	const path = "h:/a/x"
	f, at, _, _ := taken(t, path, false)
	c := f.rigOn(at).session()
	for _, req := range []*wire.Request{
		{Op: wire.OpInspectPath, Path: path},
		{Op: wire.OpAssertFencing, Owner: "o", Token: 1, Paths: []string{path}},
		{Op: wire.OpIsOwnerAlive, Owner: "o"}, // in steps: over all logs
	} {
		res := c.must(req)
		if req.Op == wire.OpAssertFencing && res.Status != wire.StatusOK {
			t.Errorf("%v: %+v", req.Op, res)
		}
	}
}

// TestRemovedIsTold: who loses a replica is told so by the leader, and deletes it.
func TestRemovedIsTold(t *testing.T) {
	t.Parallel()
	f, at, shard, replica := taken(t, "h:/a/x", true)
	f.until("the replica is deleted", func() bool {
		s, ok := f.nodes[at].replicasHere()[shard]
		return !ok || s.ID > replica
	})
}

// watchedClock tells whenever somebody looks at it.
type watchedClock struct {
	replica.Clock
	looked func()
}

func (c watchedClock) Mono() time.Duration {
	c.looked()
	return c.Clock.Mono()
}

// TestReadsPassAReplacedReplica: what raft answers is about the replica that the node has
// then. A read that set out with one that was replaced or deleted meanwhile, which
// is at whatever moment the reader looks at the clock, is not answered from that.
func TestReadsPassAReplacedReplica(t *testing.T) {
	t.Parallel()
	const path = "h:/a/x"
	r := newRig(t, nil)
	r.session().must(write("o", path, time.Hour))
	n := r.node
	of := n.logOf(n.groupOf(n.routes.Load().Resolve(path)))
	current := of.local.Load()
	former := replica.New(n.replicaConfig(of.shard, current.Replica)) // which has applied nothing
	former.Loaded.Store(true)
	former.Voting.Store(true)
	// read looks for a replica to read, and has another one take the place of the former
	// when the clock is looked at for the at-th time, if it is.
	read := func(at int, next *replica.Machine) (m *replica.Machine, err *wire.Error, replaced bool) {
		l := newShardLog(n, of.shard)
		l.raft = n.raft.Log(of.shard)
		l.lead.Store(of.lead.Load())
		l.local.Store(former)
		l.clock = watchedClock{n.clock, func() {
			if at--; at == 0 {
				l.local.Store(next)
			}
		}}
		m, err, _ = (&reader{l: l}).index(n.clock.Mono())
		return m, err, at <= 0
	}
	if m, err, _ := read(0, nil); m != former || err != nil {
		t.Fatalf("nothing takes its place: %p, %v, want %p", m, err, former)
	}
	for at := 1; at <= 3; at++ { // before it is taken, before raft is asked, and before raft answers
		if m, err, replaced := read(at, current); replaced && (m != current || err != nil) {
			t.Errorf("replaced at look %d: read from %p, %v, want %p", at, m, err, current)
		}
		if m, err, replaced := read(at, nil); replaced && (m != nil || err != errReadElsewhere) {
			t.Errorf("deleted at look %d: read from %p, %v, want %v", at, m, err, errReadElsewhere)
		}
	}
}

// droppingLog is raft that has no leader for a time, and drops what it is asked first once it has: it never says so.
type droppingLog struct {
	raft.Log
	clock  *testClock
	led    func() bool // called whenever it is asked; true once there is a leader
	behind int         // asked for since then
}

func (l *droppingLog) ReadIndex(time.Duration) (raft.Pending, error) {
	if l.led() {
		l.behind++
	}
	return answeredPending(l.behind > 1), nil
}

func (l *droppingLog) Await(d time.Duration, _, _ <-chan struct{}, _ ...raft.Pending) {
	l.clock.advance(d)
}

// answeredPending is a request to raft that is answered, or never is.
type answeredPending bool

func (p answeredPending) Answered() (done, ok bool) { return bool(p), bool(p) }
func (p answeredPending) Release()                  {}

// TestReadsSoonOnceThereIsALeader: a log had no leader for long, so that raft is given its time to answer. Once there
// is one it is asked again soon, as what a new leader is asked first it may drop.
func TestReadsSoonOnceThereIsALeader(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	n := r.node
	of := n.logOf(n.groupOf("h:/a"))
	clock := new(testClock)
	clock.freeze()
	l := newShardLog(n, of.shard)
	l.clock, l.timeout = clock, time.Minute
	l.local.Store(of.local.Load())
	began, known := clock.Mono(), time.Duration(0)
	l.raft = &droppingLog{Log: n.raft.Log(of.shard), clock: clock, led: func() bool {
		if known == 0 && clock.Mono()-began >= 10*time.Second {
			known = clock.Mono()
			l.lead.Store(of.lead.Load())
		}
		return known != 0
	}}
	read := &reader{l: l}
	if _, err, _ := read.index(clock.Mono()); err != nil {
		t.Fatal(err)
	}
	first, most := read.patience()
	if took := clock.Mono() - known; known == 0 || took > 2*first+lookAgain || took >= most {
		t.Errorf("it took %v once there was a leader; raft is given %v first, %v at most", took, first, most)
	}
}
