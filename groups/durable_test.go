package groups

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	gvfs "github.com/lni/vfs"

	"github.com/pathlockd/pathlockd/wire"
)

// acked is what clients were told, up to a power loss.
type acked struct {
	mu    sync.Mutex
	over  bool
	holds map[string]int64 // token by path, of locks taken and not let go
	high  map[string]int64 // highest token ever told of a path
}

// record notes an answer unless the power was gone by then.
func (a *acked) record(path string, token int64, held bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	if held {
		a.holds[path] = token
		a.high[path] = max(a.high[path], token)
	} else {
		delete(a.holds, path)
	}
}

// TestPromise7PowerLoss cuts the power under load, again and again: every lock that
// a client was told it has is there, with its token; none that it was told it let
// go is; and tokens go on above all that were told.
func TestPromise7PowerLoss(t *testing.T) {
	r := newRig(t, nil)
	high := make(map[string]int64)
	for round := range 4 {
		a := &acked{holds: make(map[string]int64), high: make(map[string]int64)}
		stop := make(chan struct{})
		var clients sync.WaitGroup
		for w := range 8 {
			clients.Add(1)
			go func() {
				defer clients.Done()
				r.churn(a, round, w, stop)
			}()
		}
		eventually(t, "some hundred locks are held", func() bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			return len(a.holds) >= 150
		})
		// The rows of every second round are on disk for good when the power goes; those
		// of the others go with it.
		for _, m := range r.node.hosted() {
			if err := m.Checkpoint(round%2 == 0); err != nil {
				t.Fatal(err)
			}
			m.Evict()
		}
		a.mu.Lock()
		a.over = true
		a.mu.Unlock()
		r.powerLoss()
		close(stop)
		clients.Wait()
		c := r.session()
		for path, token := range a.holds {
			if res := c.inspect(path); res.Owner == "" || res.Token != token {
				t.Fatalf("round %d: %s was taken with token %d, and is now held by %q with %d", round, path, token,
					res.Owner, res.Token)
			}
		}
		maps.Copy(high, a.high)
		for path, token := range high {
			if res := c.inspect(path); res.Token < token {
				t.Fatalf("round %d: %s had token %d, and now its fence is %d", round, path, token, res.Token)
			}
		}
		for _, space := range []string{"a", "b", "c"} {
			path := fmt.Sprintf("h:/%s/probe-%d", space, round)
			if res := c.must(write("probe", path, time.Hour)); res.Token <= highest(high, "h:/"+space+"/") {
				t.Fatalf("round %d: token %d of %s is not above %d", round, res.Token, path,
					highest(high, "h:/"+space+"/"))
			}
		}
	}
}

func highest(tokens map[string]int64, prefix string) (top int64) {
	for path, token := range tokens {
		if strings.HasPrefix(path, prefix) {
			top = max(top, token)
		}
	}
	return top
}

// churn takes locks and lets every second one go.
func (r *rig) churn(a *acked, round, worker int, stop chan struct{}) {
	c := r.session()
	owner := fmt.Sprintf("w%d-%d", round, worker)
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		path := fmt.Sprintf("h:/%c/%d/%d/%d", 'a'+i%3, round, worker, i)
		o := c.start(r.next.Add(1), write(owner, path, time.Hour))
		select {
		case res := <-o.done:
			if res.Code != wire.OK {
				continue
			}
			a.record(path, res.Token, true)
		case <-stop:
			return
		}
		if i%2 == 0 {
			continue
		}
		// From here on the lock may be gone before the answer says so.
		a.mu.Lock()
		if !a.over {
			delete(a.holds, path)
		}
		a.mu.Unlock()
		o = c.start(r.next.Add(1), release(owner, path))
		select {
		case <-o.done:
		case <-stop:
			return
		}
	}
}

// TestReloadIsTheSame holds the state that a start reads back from disk, plus the
// log, against the state that was in memory.
func TestReloadIsTheSame(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	for i := range 60 {
		owner := fmt.Sprintf("o%d", i%7)
		req := write(owner, fmt.Sprintf("h:/s%d/x%d", i%5, i%11), time.Hour)
		req.Meta, _ = (&wire.Metadata{Host: "box", PID: int64(i % 3), Labels: map[string]string{"job": owner}}).Encode()
		if i%9 == 0 {
			req.Key = fmt.Sprintf("key%d", i)
		}
		if i%4 == 0 {
			req.Flags |= wire.FlagBind
		}
		if i%5 == 0 {
			c.start(r.next.Add(1), waiting(req))
			continue
		}
		c.ask(req)
		if i == 30 {
			for _, m := range r.node.hosted() {
				if err := m.Checkpoint(false); err != nil {
					t.Fatal(err)
				}
				m.Evict()
			}
		}
	}
	c.must(&wire.Request{Op: wire.OpSetWaitEdge, Owner: "o1", Blocker: "o2", TTLMillis: 3_600_000})
	c.must(&wire.Request{Op: wire.OpSetPolicy, Namespace: "h:/s9/deep", Algorithm: wire.PointRW})
	c.must(&wire.Request{Op: wire.OpIncrToken, Key: "once"})
	r.clock.freeze() // a tick would change what is compared
	before := r.digests()
	for _, how := range []string{"a restart", "a second restart"} {
		r.restart()
		if after := r.digests(); !maps.Equal(before, after) {
			t.Fatalf("after %s the digests are %v, they were %v", how, after, before)
		}
	}
	r.powerLoss()
	if after := r.digests(); !maps.Equal(before, after) {
		t.Fatalf("after a power loss the digests are %v, they were %v", after, before)
	}
}

// syncBuffer is a buffer for many writers.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// brokenDisk fails every operation of one kind once it is broken.
type brokenDisk struct {
	op     gvfs.Op
	broken atomic.Bool
}

func (d *brokenDisk) MaybeError(op gvfs.Op) error {
	if op == d.op && d.broken.Load() {
		return syscall.ENOSPC
	}
	return nil
}

// TestFailedWriteStops makes the disks refuse: the process says so and ends with
// its own exit code, and the request that was under way is not acknowledged.
func TestFailedWriteStops(t *testing.T) {
	for name, op := range map[string]gvfs.Op{"write": gvfs.OpWrite, "sync": gvfs.OpSync} {
		t.Run("raft log: "+name, func(t *testing.T) {
			disk := &brokenDisk{op: op}
			stopsOn(t, disk, func(_ *rig, c *caller) {
				disk.broken.Store(true)
				c.start(c.r.next.Add(1), write("b", "h:/a/2", time.Hour))
			})
		})
	}
	t.Run("state database", func(t *testing.T) {
		stopsOn(t, nil, func(r *rig, _ *caller) {
			r.stateBroken.Store(true)
			m := r.node.logs[r.node.homes[r.node.groupOf("h:/a")]].local.Load()
			go func() { _ = m.Sync() }()
		})
	})
}

// brokenWrites makes a state database's writes fail once it is told to.
type brokenWrites struct{ broken *atomic.Bool }

func (b brokenWrites) String() string { return "broken writes" }

func (b brokenWrites) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && b.broken.Load() {
		return syscall.ENOSPC
	}
	return nil
}

// stopsOn runs a node until a failure that fail brings about ends its process.
func stopsOn(t *testing.T, disk *brokenDisk, fail func(*rig, *caller)) {
	t.Helper()
	stopped := make(chan int, 64)
	old := exit
	exit = func(code int) {
		select {
		case stopped <- code:
		default:
		}
		select {} // the process would be gone: whoever came here does nothing more
	}
	var said syncBuffer
	var faults gvfs.Injector
	if disk != nil {
		faults = disk
	}
	r := newRigOn(t, faults, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&said, nil)) })
	c := r.session()
	t.Cleanup(func() { // before the rig's own
		exit = old
		if disk != nil {
			disk.broken.Store(false)
		}
		r.stateBroken.Store(false)
		r.node = nil // what hangs in the disk cannot be closed
	})
	c.must(write("a", "h:/a/1", time.Hour))
	fail(r, c)
	select {
	case code := <-stopped:
		if code != 3 {
			t.Fatalf("exit code %d", code)
		}
	case <-time.After(patience):
		t.Fatal("the process goes on")
	}
	if got := said.String(); !strings.Contains(got, "storage failed") {
		t.Errorf("it said %q", got)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if disk != nil && len(c.open) != 1 {
		t.Error("the request was answered, and cannot be durable")
	}
}
