package groups

import (
	"io"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	gvfs "github.com/lni/vfs"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/internal/testkit/server"
	"github.com/pathlockd/pathlockd/wire"
)

// rig is one node on disks that can lose power, and clients of it.
type rig struct {
	t    *testing.T
	cfg  Config
	node *Node
	live atomic.Pointer[Node] // node, for callers that go on while it is replaced
	// opened, if there, is called with the node once it is open, before it is ready.
	opened func(*Node)
	raft   *gvfs.MemFS
	// faults makes the raft log's disk fail, nil for never.
	faults gvfs.Injector
	// stateBroken makes the state database's disk fail.
	stateBroken atomic.Bool
	state       *vfs.MemFS
	cuts        atomic.Int64 // power losses so far
	next        atomic.Uint64
	clock       *testClock
}

// testClock is a clock whose hands the test moves.
type testClock struct {
	mu    sync.Mutex
	start time.Time
	ahead time.Duration // of the real monotonic clock
	wall  time.Duration // off the real time of day
	stop  bool          // Mono stands still
	at    time.Duration
}

func (c *testClock) Mono() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop {
		return c.at
	}
	return time.Since(c.start) + c.ahead
}

func (c *testClock) Wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.wall)
}

// freeze makes the monotonic clock stand still; advance moves it while it does.
func (c *testClock) freeze() {
	at := c.Mono()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop, c.at = true, at
}

// run lets the monotonic clock go on from where it stands.
func (c *testClock) run() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop, c.ahead = false, c.at-time.Since(c.start)
}

func (c *testClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at += d
}

// hurry has d pass in an eighth of it, in steps that the logs' clocks follow (MaxStep).
func (c *testClock) hurry(d time.Duration) {
	const step = 200 * time.Millisecond
	for ; d > 0; d -= step {
		time.Sleep(step / 8)
		c.mu.Lock()
		c.ahead += step - step/8
		c.mu.Unlock()
	}
}

func (c *testClock) stepWall(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += d
}

// freeAddr answers an address that nobody listens on.
func freeAddr(t testing.TB) string {
	t.Helper()
	addr, err := server.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// newRig starts a node on disks in memory. change may alter its configuration.
func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	return newRigOn(t, nil, change)
}

func newRigOn(t *testing.T, faults gvfs.Injector, change func(*Config)) *rig {
	t.Helper()
	r := &rig{faults: faults, t: t, raft: gvfs.NewStrictMem(), state: vfs.NewCrashableMem(),
		clock: &testClock{start: time.Now()}}
	r.cfg = Config{
		DataDir: t.TempDir(), Bootstrap: true, Segments: 1, GroupCount: 16, LogCount: 2,
		RaftAddr: freeAddr(t), Clock: r.clock, RequestTimeout: 10 * time.Second,
		ElectionMin: 300 * time.Millisecond, Heartbeat: 50 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	if change != nil {
		change(&r.cfg)
	}
	r.open()
	t.Cleanup(func() {
		if r.node != nil {
			r.node.Close(0)
		}
	})
	return r
}

func (r *rig) open() {
	r.t.Helper()
	r.cfg.RaftFS, r.cfg.FS = r.raft, errorfs.Wrap(r.state, brokenWrites{&r.stateBroken})
	if r.faults != nil {
		r.cfg.RaftFS = gvfs.Wrap(r.raft, r.faults)
	}
	n, err := Open(r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.node = n
	r.live.Store(n)
	if r.opened != nil {
		r.opened(n)
	}
	if !n.WaitReady(90 * time.Second) {
		r.t.Fatalf("not ready: %s", n.health().Message)
	}
}

// restart closes the node and opens it again.
func (r *rig) restart() {
	r.t.Helper()
	r.close()
	r.open()
}

func (r *rig) close() {
	r.t.Helper()
	if err := r.node.Close(time.Second); err != nil {
		r.t.Fatal(err)
	}
	r.node = nil
}

// powerLoss cuts the power: what was not synced at this instant is gone. The node does
// not know, and may answer what no client hears of: what is answered once cuts has grown
// counts for nothing.
func (r *rig) powerLoss() {
	r.t.Helper()
	// The state first: it may be behind the log, and never ahead of it.
	r.state = r.state.CrashClone(vfs.CrashCloneCfg{})
	r.cuts.Add(1)
	r.raft.SetIgnoreSyncs(true)
	if err := r.node.Close(0); err != nil {
		r.t.Fatal(err)
	}
	r.raft.ResetToSyncedState()
	r.raft.SetIgnoreSyncs(false)
	r.open()
}

// digestsOf is the digest of every group, and of the system group.
func (r *rig) digests() map[uint16]uint64 { return digestsOn(r.node) }

// digestsOn is that of what a node hosts.
func digestsOn(n *Node) map[uint16]uint64 {
	d := make(map[uint16]uint64)
	for _, m := range n.hosted() {
		maps.Copy(d, digestsOf(m))
	}
	return d
}

// digestsOf is that of each group in a log, and of the system group.
func digestsOf(m *replica.Machine) map[uint16]uint64 {
	m.Lock()
	defer m.Unlock()
	d := make(map[uint16]uint64)
	for _, g := range m.Order {
		d[g.Number] = g.State.View().Digest()
	}
	if m.System != nil {
		d[replica.SystemGroup] = m.System.Digest()
	}
	return d
}

// patience bounds what a test waits for: it is for machines that do much else.
const patience = 90 * time.Second

// eventually waits for something to become true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	if !within(patience, 2*time.Millisecond, is) {
		t.Fatalf("never: %s", what)
	}
}

// within looks every so often whether something is so, and says whether it came to be in
// time.
func within(d, every time.Duration, is func() bool) bool {
	late := time.After(d)
	look := time.NewTicker(every)
	defer look.Stop()
	for !is() {
		select {
		case <-late:
			return false
		case <-look.C:
		}
	}
	return true
}

// proposed hands an entry to raft and waits until that has carried it out.
func proposed(t *testing.T, l *shardLog, entry []byte) {
	t.Helper()
	under, err := l.raft.Propose(entry, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer under.Release()
	eventually(t, "raft answers", func() bool {
		done, _ := under.Answered()
		return done
	})
	if _, ok := under.Answered(); !ok {
		t.Fatal("raft did not carry the entry out")
	}
}

// nextConnection has a session come back: its connection is over, and it asks on the next one.
func (r *rig) nextConnection(c *caller) {
	before := c.session
	c.session = &wire.Session{ID: before.ID, Epoch: before.Epoch + 1, Window: before.Window, First: r.next.Add(1)}
	r.node.Closed(before, false, true)
}
