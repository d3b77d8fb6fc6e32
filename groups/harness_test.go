package groups

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	gvfs "github.com/lni/vfs"

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

func (c *testClock) stepWall(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += d
}

// freeAddr answers an address that nobody listens on.
func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// newRig starts a node on disks in memory. change may alter its configuration.
func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	return newRigOn(t, nil, change)
}

func newRigOn(t *testing.T, faults gvfs.Injector, change func(*Config)) *rig {
	t.Helper()
	r := &rig{faults: faults, t: t, raft: gvfs.NewStrictMem(), state: vfs.NewCrashableMem(), clock: &testClock{start: time.Now()}}
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
	if !n.WaitReady(20 * time.Second) {
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

// caller is a client's session.
type caller struct {
	r       *rig
	session *wire.Session
	mu      sync.Mutex
	open    map[*wire.Call]*outcome
}

// outcome is what became of a call.
type outcome struct {
	queued chan wire.Result
	done   chan wire.Result
}

func (r *rig) session() *caller {
	n := r.next.Add(1)
	s := &wire.Session{Epoch: 1, Window: 256}
	copy(s.ID[:], fmt.Sprintf("session-%08d", n))
	return &caller{r: r, session: s, open: make(map[*wire.Call]*outcome)}
}

func (c *caller) Reply(call *wire.Call) {
	c.mu.Lock()
	o := c.open[call]
	delete(c.open, call)
	c.mu.Unlock()
	res := call.Res
	*call = wire.Call{} // as a server does, which uses it again: who answered it must not look at it any more
	o.done <- res
}

func (c *caller) Queued(call *wire.Call, res *wire.Result) {
	c.mu.Lock()
	o := c.open[call]
	c.mu.Unlock()
	o.queued <- *res
}

func (c *caller) Flush() {}

// start asks and does not wait.
func (c *caller) start(id uint64, req *wire.Request) *outcome {
	c.r.t.Helper()
	if err := req.Validate(); err != nil {
		c.r.t.Error(err)
	}
	call := &wire.Call{ID: id, Op: req.Op, Req: req, Session: c.session, To: c}
	call.Body, call.NArgs = wire.AppendArgs(nil, req)
	call.Bound = req.Flags&wire.FlagBind != 0
	call.Grace = 100
	o := &outcome{queued: make(chan wire.Result, 1), done: make(chan wire.Result, 1)}
	c.mu.Lock()
	c.open[call] = o
	c.mu.Unlock()
	c.r.live.Load().Serve([]*wire.Call{call})
	return o
}

// ask asks and waits for the answer.
func (c *caller) ask(req *wire.Request) wire.Result {
	c.r.t.Helper()
	o := c.start(c.r.next.Add(1), req)
	select {
	case res := <-o.done:
		return res
	case <-time.After(20 * time.Second):
		c.r.t.Fatalf("no answer to %v", req.Op)
		return wire.Result{}
	}
}

// must asks for what has to succeed.
func (c *caller) must(req *wire.Request) wire.Result {
	c.r.t.Helper()
	res := c.ask(req)
	if err := res.Err(); err != nil || res.Status != wire.StatusOK {
		c.r.t.Fatalf("%v of %s: %v, status %v %v %s", req.Op, req.Owner, err, res.Status, res.Reason, res.Path)
	}
	return res
}

func write(owner, path string, ttl time.Duration) *wire.Request {
	return &wire.Request{
		Op: wire.OpAcquire, Owner: owner, TTLMillis: uint64(ttl.Milliseconds()),
		Locks: []wire.LockRequest{{Path: path}},
	}
}

func waiting(req *wire.Request) *wire.Request {
	req.Flags |= wire.FlagWait
	return req
}

func release(owner, path string) *wire.Request {
	return &wire.Request{Op: wire.OpRelease, Owner: owner, Releases: []wire.ReleaseRequest{{Path: path}}}
}

func (c *caller) inspect(path string) wire.Result {
	c.r.t.Helper()
	return c.must(&wire.Request{Op: wire.OpInspectPath, Path: path})
}

// eventually waits for something to become true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	late := time.After(20 * time.Second)
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for !is() {
		select {
		case <-late:
			t.Fatalf("never: %s", what)
		case <-look.C:
		}
	}
}

// digests is the digest of every group, and of the system group.
func (r *rig) digests() map[uint16]uint64 {
	d := make(map[uint16]uint64)
	for _, m := range r.node.hosted() {
		m.mu.Lock()
		for _, g := range m.order {
			d[g.number] = g.state.View().Digest()
		}
		if m.system != nil {
			d[systemGroup] = m.system.Digest()
		}
		m.mu.Unlock()
	}
	return d
}
