package groups

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	sm "github.com/lni/dragonboat/v4/statemachine"
	gvfs "github.com/lni/vfs"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// fenceOf is the key of the row of the i-th of many fences.
func fenceOf(i int) []byte {
	return replica.GroupKey(nil, 0, []byte(engine.FenceRow(fmt.Sprintf("\x00\x03h:/a/%08d", i))))
}

// manyFences is a snapshot of a log with so many fences. looked is called before each piece
// of it is read, with the number of fences read before.
func manyFences(shard uint64, n int, looked func(read int)) io.Reader {
	pipe, in := io.Pipe()
	var sent atomic.Int64
	go func() {
		w := rows.NewWriter(in, rows.OldestFormat)
		for i := range n {
			w.Row(fenceOf(i), []byte{0x91, 0x01})
			sent.Store(int64(i))
		}
		state := rows.State{Applied: 7}
		w.Row(replica.LogKey(shard, rows.LogState, nil), state.Append(nil))
		in.CloseWithError(errOr(w.End(), io.EOF))
	}()
	return &lookingReader{pipe, func() { looked(int(sent.Load())) }}
}

func errOr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// lookingReader calls look before each read.
type lookingReader struct {
	io.Reader
	look func()
}

func (r *lookingReader) Read(p []byte) (int, error) {
	r.look()
	return r.Reader.Read(p)
}

// TestInstallInPieces: a snapshot need fit neither into memory nor into one batch of the
// database: what was read of it is there, but for one piece and what is being read.
func TestInstallInPieces(t *testing.T) {
	const fences, outside = 1_500_000, 2*replica.InstallBytes + 4<<20
	r := newRig(t, func(c *Config) { c.LogCount = 1 })
	m := r.machineOf(rows.FirstLog)
	row := len(fenceOf(0)) + 4
	there := func(i int) bool {
		found, err := m.Store.Get(fenceOf(i), func([]byte) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	missing := 0
	err := m.RecoverFromSnapshot(manyFences(rows.FirstLog, fences, func(read int) {
		if early := read - outside/row; early > 0 && !there(early) {
			missing++
		}
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if missing > 0 {
		t.Errorf("%d times a row was not in the database %d bytes after it had been read", missing, outside)
	}
	if m.Applied != 7 || !there(0) || !there(fences-1) {
		t.Errorf("after entry %d; the first fence is there: %v, the last: %v", m.Applied, there(0), there(fences-1))
	}
}

// TestInstallCutShort: what a snapshot's installation left when it was cut short is no
// state: a start begins with nothing applied, nothing is written, imaged or read, and
// entries end the process with what to do. The next installation is whole.
func TestInstallCutShort(t *testing.T) {
	r := newRig(t, func(c *Config) { c.LogCount = 1 })
	c := r.session()
	for i := range 50 {
		c.must(write("a", fmt.Sprintf("h:/s%d/x", i), time.Hour))
	}
	r.clock.freeze()
	old := r.node.logs[rows.FirstLog].local.Load()
	image := func() *bytes.Buffer {
		t.Helper()
		f, err := old.PrepareSnapshot()
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := old.SaveSnapshot(f, &b, nil); err != nil {
			t.Fatal(err)
		}
		return &b
	}
	m := r.machineOf(rows.FirstLog)
	if err := m.RecoverFromSnapshot(image(), nil); err != nil {
		t.Fatal(err)
	}
	var last error
	m.Fail = func(err error) { last = err }
	for i := range 50 {
		c.must(release("a", fmt.Sprintf("h:/s%d/x", i)))
	}
	want, whole := digestsOf(old), image()
	half := bytes.NewReader(whole.Bytes()[:whole.Len()/2])
	if err := m.RecoverFromSnapshot(half, nil); err == nil {
		t.Fatal("half a snapshot passes for one")
	}
	closed := make(chan struct{})
	close(closed)
	if err := m.RecoverFromSnapshot(bytes.NewReader(whole.Bytes()), closed); err == nil {
		t.Fatal("an installation that is to stop goes on")
	}
	for round, m := range []*replica.Machine{m, replica.New(m.Config)} { // as it is, and after a start
		m.Proposer = nil
		if round == 1 {
			if err := m.Load(); err != nil || m.Applied != 0 {
				t.Fatalf("a start begins after entry %d, %v", m.Applied, err)
			}
		}
		if err := m.Checkpoint(true); err != nil {
			t.Fatal(err)
		}
		found, err := m.Store.Get(replica.LogKey(rows.FirstLog, rows.LogState, nil), func([]byte) error { return nil })
		if found || err != nil {
			t.Fatalf("a checkpoint says as of which entry the state is: %v", err)
		}
		if _, err := m.PrepareSnapshot(); err == nil {
			t.Error("there is an image of half a state")
		}
		inspect := &replica.Query{What: replica.AskInspect, Group: 3, Version: replica.AnyVersion, NS: "h:/s1",
			Path: "h:/s1/x"}
		if res := m.Answer(inspect); res.Err() == nil {
			t.Error("half a state is read")
		}
		last = nil
		entry := replica.AppendLeaderEpoch(nil, rows.OldestFormat, replica.LeaderEpoch{Term: 1},
			replica.DefaultLimits())
		if _, err := m.Update([]sm.Entry{{Index: 9, Cmd: entry}}); err != nil {
			t.Fatal(err)
		}
		if last == nil || !strings.Contains(last.Error(), "half installed") ||
			!strings.Contains(last.Error(), "data_dir") {
			t.Errorf("entries go on top of half a state: %v", last)
		}
		if err := m.RecoverFromSnapshot(bytes.NewReader(whole.Bytes()), nil); err != nil {
			t.Fatal(err)
		}
		if got := digestsOf(m); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("once it is installed, its digests are %v, want %v", got, want)
		}
		if round == 0 {
			if err := m.RecoverFromSnapshot(bytes.NewReader(whole.Bytes()[:whole.Len()/2]), nil); err == nil {
				t.Fatal("half a snapshot passes for one")
			}
		}
	}
}

// powerCut is the disk of a node's state, and what was on it when the power went.
type powerCut struct {
	disk *vfs.MemFS
	raft *gvfs.MemFS
	when func() bool // the power goes before the next write to the database's log, if so

	once  sync.Once
	gone  chan struct{}
	found *vfs.MemFS
}

func (p *powerCut) String() string { return "power cut" }

// MaybeError implements errorfs.Injector.
func (p *powerCut) MaybeError(op errorfs.Op) error {
	if op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".log") && p.when != nil && p.when() {
		p.once.Do(func() {
			p.raft.SetIgnoreSyncs(true)
			all := vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))}
			p.found = p.disk.CrashClone(all)
			close(p.gone)
		})
	}
	return nil
}

// TestPowerLossWhileInstalling: the power goes while a replica that was too far behind
// installs a snapshot. When it comes back, raft installs the snapshot again, and the
// replica is what the others are.
func TestPowerLossWhileInstalling(t *testing.T) {
	t.Parallel()
	const locks = 6 * wire.MaxPaths
	w := new(network)
	cut := &powerCut{disk: vfs.NewCrashableMem(), raft: gvfs.NewStrictMem(), gone: make(chan struct{})}
	f := newLocalCluster(t, 3, func(i int, c *Config) {
		c.Faults, c.EvictionWindow, c.LogCount = w, time.Hour, 1
		if i == 2 {
			c.RaftFS, c.FS = cut.raft, errorfs.Wrap(cut.disk, cut)
		}
	})
	f.settle(3)
	// No lock is in its log any more when it is back, but in a snapshot.
	behind := f.nodes[2]
	w.set(behind.id.NodeID, true)
	lead := -1
	f.until("another node leads", func() bool {
		for i, n := range f.nodes[:2] {
			if n.logs[rows.FirstLog].leads() {
				lead = i
			}
		}
		return lead >= 0
	})
	c := newClusterClient(f.nodes[lead])
	for i := 0; i < locks; i += wire.MaxPaths {
		many := &wire.Request{Op: wire.OpAcquire, Owner: fmt.Sprint("o", i), TTLMillis: 3_600_000}
		for k := range wire.MaxPaths {
			many.Locks = append(many.Locks, wire.LockRequest{Path: fmt.Sprintf("h:/s%d/with-a-long-name-%d", i, k)})
		}
		if res := c.ask(t, many); res.Code != wire.OK || res.Status != wire.StatusOK {
			t.Fatalf("%+v", res)
		}
	}
	leader := f.nodes[lead].logs[rows.FirstLog].local.Load()
	if err := leader.Checkpoint(true); err != nil {
		t.Fatal(err)
	}
	for _, n := range f.nodes[:2] {
		f.until("the log is compacted", func() bool {
			n.snapshotKeeping(rows.FirstLog, 1)
			return n.compacted(rows.FirstLog)
		})
	}
	m := behind.logs[rows.FirstLog].local.Load()
	var writes atomic.Int64
	cut.when = func() bool { return m.Installing.Load() && writes.Add(1) == 4 }
	w.set(behind.id.NodeID, false)
	f.until("the power goes while it installs", func() bool {
		select {
		case <-cut.gone:
			return true
		default:
			return false
		}
	})
	f.kill(w, 2)
	cut.raft.ResetToSyncedState()
	cut.raft.SetIgnoreSyncs(false)
	dir := filepath.Join(behind.cfg.DataDir, rows.StateDir)
	half, err := replica.OpenStore(dir, cut.found, behind.log, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	is, err := half.HalfInstalled(rows.FirstLog)
	if err != nil || !is {
		t.Fatalf("the marker is on the disk: %v, %v", is, err)
	}
	if err := half.Close(); err != nil {
		t.Fatal(err)
	}
	f.cfgs[2].FS = cut.found
	w.set(behind.id.NodeID, false)
	f.start(2)
	f.until("it is what the leader is", func() bool {
		again := f.nodes[2].logs[rows.FirstLog].local.Load()
		if again == nil || !again.Loaded.Load() || again.Installing.Load() {
			return false
		}
		a, b := again.Digest(), leader.Digest()
		return a == b
	})
}
