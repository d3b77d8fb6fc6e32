package groups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	gvfs "github.com/lni/vfs"

	"github.com/pathlockd/pathlockd/groups/backup"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// openImage opens an image of a log.
func (c *caller) openImage(log uint64, local bool) *wire.Backup {
	c.r.t.Helper()
	return c.must(&wire.Request{Op: wire.OpBackupOpen, Target: log, Explicit: local}).List.Backup
}

// readImage reads an image to its end, each page twice.
func (c *caller) readImage(id uint64, to io.Writer) {
	c.r.t.Helper()
	req := &wire.Request{Op: wire.OpBackupRead, Target: id}
	for {
		res := c.must(req)
		if again := c.must(req); string(again.List.Rows) != string(res.List.Rows) || again.Done != res.Done {
			c.r.t.Fatal("a page that is asked for again differs")
		}
		if _, err := to.Write(res.List.Rows); err != nil {
			c.r.t.Fatal(err)
		}
		if res.Done {
			return
		}
		req = &wire.Request{Op: wire.OpBackupRead, Target: id, Cursor: res.List.Cursor}
	}
}

// save takes a backup of the node, once all images are open.
func (r *rig) save(opened func(log uint64)) string {
	r.t.Helper()
	dir := filepath.Join(r.t.TempDir(), "backup")
	w, err := backup.Create(dir)
	if err != nil {
		r.t.Fatal(err)
	}
	c := r.session()
	var images []*wire.Backup
	for _, log := range backup.LogsOf(r.cfg.LogCount) {
		images = append(images, c.openImage(log, false))
		if opened != nil {
			opened(log)
		}
	}
	for _, b := range images {
		l, err := w.Log(b)
		if err != nil {
			r.t.Fatal(err)
		}
		c.readImage(b.ID, l)
		if err := l.Close(); err != nil {
			r.t.Fatal(err)
		}
		c.must(&wire.Request{Op: wire.OpBackupClose, Target: b.ID})
	}
	if _, err := w.Commit("test", false); err != nil {
		r.t.Fatal(err)
	}
	return dir
}

// restore founds another cluster with a backup, and opens its node.
func (r *rig) restore(dir string) (*rig, *backup.Restored) {
	r.t.Helper()
	data := filepath.Join(r.t.TempDir(), "restored")
	made, err := backup.Restore(context.Background(), backup.Options{From: dir, DataDir: data, NodeID: "pathlockd-7"})
	if err != nil {
		r.t.Fatal(err)
	}
	other := &rig{t: r.t, cfg: r.cfg, clock: &testClock{start: time.Now()}}
	other.cfg.DataDir, other.cfg.NodeID, other.cfg.Bootstrap = data, "pathlockd-7", false
	other.cfg.RaftAddr, other.cfg.Clock = freeAddr(r.t), other.clock
	other.cfg.FS, other.cfg.RaftFS = vfs.Default, gvfs.NewStrictMem()
	other.openRestored()
	r.t.Cleanup(func() {
		if other.node != nil {
			other.node.Close(0)
		}
	})
	return other, made
}

func (r *rig) openRestored() {
	r.t.Helper()
	n, err := Open(r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.node = n
	r.live.Store(n)
	if !n.WaitReady(20 * time.Second) {
		r.t.Fatalf("not ready: %s", n.health().Message)
	}
}

// ladder takes one path after the other, each below the same namespace, and notes
// what it asked for and what it was told.
type ladder struct {
	space       string
	asked, told atomic.Int64
}

func (l *ladder) climb(c *caller, stop chan struct{}) {
	for i := int64(1); ; i++ {
		l.asked.Store(i)
		o := c.start(c.r.next.Add(1), write("climber", fmt.Sprintf("%s/%06d", l.space, i), time.Hour))
		select {
		case res := <-o.done:
			if res.Code != wire.OK {
				return
			}
			l.told.Store(i)
		case <-stop:
			return
		}
	}
}

// TestBackupIsOneInstant takes a backup while clients go on: in each log it has what
// was acknowledged before its image was opened, nothing that was asked for after, and
// of what came between a beginning without holes.
func TestBackupIsOneInstant(t *testing.T) {
	r := newRig(t, nil)
	var ladders []*ladder
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := range 6 {
		l := &ladder{space: fmt.Sprintf("h:/%d", i)}
		ladders = append(ladders, l)
		clients.Add(1)
		go func() {
			defer clients.Done()
			l.climb(r.session(), stop)
		}()
	}
	defer func() {
		close(stop)
		clients.Wait()
	}()
	high := func(rungs int64) func() bool {
		return func() bool {
			for _, l := range ladders {
				if l.told.Load() < rungs {
					return false
				}
			}
			return true
		}
	}
	eventually(t, "some hundred locks", high(100))
	for _, m := range r.node.hosted() { // half of it is on disk, half is not
		if err := m.checkpoint(false); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "some more", high(200))
	least, most := make([]int64, len(ladders)), make([]int64, len(ladders))
	for i, l := range ladders {
		least[i] = l.told.Load()
	}
	dir := r.save(func(log uint64) {
		for i, l := range ladders {
			if r.node.homes[r.node.groupOf(l.space)] == log {
				most[i] = l.asked.Load()
			}
		}
	})
	eventually(t, "the clients went on", high(least[0]+100))
	other, made := r.restore(dir)
	c := other.session()
	for i, l := range ladders {
		n := int64(0)
		last := int64(0)
		for c.inspect(fmt.Sprintf("%s/%06d", l.space, n+1)).Owner == "climber" {
			n++
			res := c.inspect(fmt.Sprintf("%s/%06d", l.space, n))
			if res.Token <= made.Base || res.Token <= last {
				t.Fatalf("rung %d of %s has token %d, after %d and with base %d", n, l.space, res.Token, last, made.Base)
			}
			last = res.Token
		}
		if n < least[i] || n > most[i] {
			t.Errorf("%s has %d rungs in the backup: %d were acknowledged before, %d asked for until its image was there", l.space, n, least[i], most[i])
		}
		for beyond := n + 1; beyond <= most[i]; beyond++ {
			if owner := c.inspect(fmt.Sprintf("%s/%06d", l.space, beyond)).Owner; owner != "" {
				t.Errorf("%s has rung %d and not %d", l.space, beyond, n+1)
			}
		}
		if late := c.must(write("late", fmt.Sprintf("%s/late", l.space), time.Hour)); late.Token <= made.Base {
			t.Errorf("token %d in %s, with base %d", late.Token, l.space, made.Base)
		}
	}
}

// TestRestoreIsTheBackup: what a node has once it was restored is what the node had
// that the backup is of, but for the tokens; and old tokens count for nothing, those
// minted after the backup neither.
func TestRestoreIsTheBackup(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	c.must(&wire.Request{Op: wire.OpSetPolicy, Namespace: "h:/slots", Algorithm: wire.Semaphore})
	for _, owner := range []string{"a", "b"} {
		req := write(owner, "h:/slots/x", time.Hour)
		req.Locks[0].Permits = 2
		c.must(req)
	}
	kept := c.must(write("keeper", "h:/a/kept", time.Hour))
	gone := c.must(write("fool", "h:/a/gone", time.Hour))
	read := write("reader", "h:/a/shared", time.Hour)
	read.Locks[0].Mode = wire.ModeRead
	c.must(read)
	c.must(write("brief", "h:/a/brief", time.Hour))
	c.must(release("brief", "h:/a/brief"))
	for _, owner := range []string{"first", "second", "third"} {
		if res := c.ask(write(owner, "h:/a/kept", time.Hour)); res.Status != wire.StatusQueued {
			t.Fatalf("%s is answered %v", owner, res.Status)
		}
	}
	counter := c.must(&wire.Request{Op: wire.OpIncrToken}).Token
	dir := r.save(nil)

	c.must(&wire.Request{Op: wire.OpForceRelease, Owner: "fool"})
	late := c.must(write("successor", "h:/a/gone", time.Hour))
	newcomer := c.must(write("newcomer", "h:/never/seen", time.Hour)) // in a group that the backup knows nothing of
	counted := c.must(&wire.Request{Op: wire.OpIncrToken}).Token

	report, err := backup.Verify(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if total := report.Total(); total.Writes != 2 || total.Shared != 3 || total.Waiters != 3 || report.Policies != 1 {
		t.Errorf("the backup has %+v and %d policies", total, report.Policies)
	}
	other, made := r.restore(dir)
	if other.node.ClusterID() == r.node.ClusterID() || other.node.ClusterID() != made.ClusterID {
		t.Errorf("the new cluster is %s, the old one was %s", other.node.ClusterID(), r.node.ClusterID())
	}
	c = other.session()
	fails := func(owner, path string, token int64, why wire.Reason) {
		t.Helper()
		res := c.ask(&wire.Request{Op: wire.OpAssertFencing, Owner: owner, Token: token, Paths: []string{path}})
		if res.Status != wire.AssertFail || res.Reason != why {
			t.Errorf("%s asserts %d on %s: %v %v", owner, token, path, res.Status, res.Reason)
		}
	}
	fails("keeper", "h:/a/kept", kept.Token, wire.ReasonStaleFencingToken)
	fails("fool", "h:/a/gone", gone.Token, wire.ReasonStaleFencingToken)
	fails("successor", "h:/a/gone", late.Token, wire.ReasonStaleOwner)
	fails("newcomer", "h:/never/seen", newcomer.Token, wire.ReasonStaleOwner)
	if again := c.must(write("keeper", "h:/a/kept", time.Hour)); again.Token <= max(made.Base, late.Token) {
		t.Errorf("the holder is answered token %d, not above %d", again.Token, made.Base)
	} else if res := c.ask(&wire.Request{Op: wire.OpAssertFencing, Owner: "keeper", Token: again.Token, Paths: []string{"h:/a/kept"}}); res.Status != wire.StatusOK {
		t.Errorf("the holder's new token fails with %v", res.Reason)
	}
	for _, path := range []string{"h:/a/brief", "h:/never/seen", "h:/nobody/ever"} {
		if res := c.inspect(path); !res.Flag || res.Token < made.Base {
			t.Errorf("the fence of %s is %d, below the base %d", path, res.Token, made.Base)
		}
	}
	stale := write("newcomer", "h:/never/seen", time.Hour)
	stale.Token = newcomer.Token
	if res := c.ask(stale); res.Status != wire.StatusConflict || res.Reason != wire.ReasonStaleFencingToken {
		t.Errorf("an old token takes a lock: %v %v", res.Status, res.Reason)
	}
	if res := c.must(write("newcomer", "h:/never/seen", time.Hour)); res.Token <= made.Base {
		t.Errorf("token %d, with base %d", res.Token, made.Base)
	}
	if next := c.must(&wire.Request{Op: wire.OpIncrToken}).Token; next <= max(counter, counted, made.Base) {
		t.Errorf("IncrFencingToken answers %d, after %d", next, counted)
	}
	if res := c.must(&wire.Request{Op: wire.OpGetPolicy, Namespace: "h:/slots"}); res.Algorithm != wire.Semaphore || !res.Flag {
		t.Errorf("the policy is %v %v", res.Algorithm, res.Flag)
	}
	if res := c.inspect("h:/slots/x"); len(res.List.Names2) != 2 {
		t.Errorf("the semaphore is held by %v", res.List.Names2)
	}
	if res := c.inspect("h:/a/shared"); len(res.List.Names) != 1 {
		t.Errorf("read by %v", res.List.Names)
	}
	last := int64(0)
	holder := "keeper"
	for _, next := range []string{"first", "second", "third"} {
		c.must(release(holder, "h:/a/kept"))
		res := c.inspect("h:/a/kept")
		if res.Owner != next || res.Token <= last {
			t.Fatalf("after %s it is held by %s with %d, want %s above %d", holder, res.Owner, res.Token, next, last)
		}
		holder, last = next, res.Token
	}
}

// TestRestoredLeasesGoOn: a lease has as long left as it had in the backup.
func TestRestoredLeasesGoOn(t *testing.T) {
	r := newRig(t, nil)
	r.session().must(write("o", "h:/a/x", 10*time.Second))
	other, _ := r.restore(r.save(nil))
	c := other.session()
	infos := c.must(&wire.Request{Op: wire.OpDescribe, Path: "h:/a/x"}).List.Infos
	if len(infos) != 1 || infos[0].ExpiresInMillis < 5_000 || infos[0].ExpiresInMillis > 10_000 {
		t.Fatalf("held as %+v", infos)
	}
	other.clock.freeze()
	defer other.clock.run()
	began := other.clock.Mono()
	eventually(t, "the lease ends", func() bool {
		other.clock.advance(250 * time.Millisecond)
		return c.inspect("h:/a/x").Owner == ""
	})
	if took := other.clock.Mono() - began; took < 5*time.Second {
		t.Errorf("it ended after %v", took)
	}
}

// TestRestoredIsCompacted: a restored node becomes growable once no log has its first
// entries any more, and is so after a restart too.
func TestRestoredIsCompacted(t *testing.T) {
	r := newRig(t, nil)
	if !r.node.Growable() {
		t.Fatal("a founder is not growable")
	}
	r.session().must(write("o", "h:/a/x", time.Hour))
	dir := r.save(nil)
	other, _ := r.restore(dir)
	raw := func() string {
		b, err := os.ReadFile(filepath.Join(other.cfg.DataDir, identityFile))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	eventually(t, "the node is growable", other.node.Growable)
	check := func() {
		t.Helper()
		for shard := range other.node.logs {
			entries, err := other.node.host.GetLogReader(shard)
			if err != nil {
				t.Fatal(err)
			}
			if first, last := entries.GetRange(); first <= 1 {
				t.Errorf("log %d has entries %d to %d: a new replica would be sent them from the start", shard, first, last)
			}
		}
		if strings.Contains(raw(), "restored") {
			t.Errorf("the identity says %s", raw())
		}
	}
	check()
	for range 2 {
		if err := other.node.Close(time.Second); err != nil {
			t.Fatal(err)
		}
		other.openRestored()
		if !other.node.Growable() {
			t.Fatal("it is not growable after a restart")
		}
		check()
		if owner := other.session().inspect("h:/a/x").Owner; owner != "o" {
			t.Fatalf("held by %q", owner)
		}
		other.session().must(write("p", "h:/a/y", time.Hour))
	}
}

// TestRestoredIsNotGrowable: before its logs are compacted a restored node is not
// growable, however often it is started; its settings are those of the old cluster.
func TestRestoredIsNotGrowable(t *testing.T) {
	r := newRig(t, nil)
	data := filepath.Join(t.TempDir(), "restored")
	o := backup.Options{From: r.save(nil), DataDir: data, NodeID: "pathlockd-0"}
	if _, err := backup.Restore(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		id, err := loadIdentity(data)
		if err != nil {
			t.Fatal(err)
		}
		cfg := r.cfg.Defaults()
		if newNode(cfg, id).Growable() {
			t.Error("it is growable before its logs are compacted")
		}
		if err := id.check(&cfg); err != nil {
			t.Error(err)
		}
		id.Starts++
		if err := id.save(data); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnfinishedRestoreDoesNotStart: on what an interrupted restore left nothing
// starts, and nothing is founded over it either.
func TestUnfinishedRestoreDoesNotStart(t *testing.T) {
	r := newRig(t, nil)
	r.session().must(write("o", "h:/a/x", time.Hour))
	dir := r.save(nil)
	data := filepath.Join(t.TempDir(), "restored")
	cfg := r.cfg
	cfg.RaftAddr, cfg.FS, cfg.RaftFS = freeAddr(t), vfs.Default, gvfs.NewStrictMem()
	cfg.Log = slog.New(slog.DiscardHandler)
	interrupted := 0
	for left := 0; ; left++ {
		data := filepath.Join(data, fmt.Sprint(left))
		o := backup.Options{From: dir, DataDir: data, NodeID: "pathlockd-0"}
		_, err := backup.Restore(&countdown{Context: context.Background(), left: left}, o)
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("the restore ended with %v", err)
		}
		if _, err := os.Stat(data); err != nil {
			continue // nothing was begun yet
		}
		interrupted++
		if _, err := os.Stat(filepath.Join(data, rows.RestoringFile)); err != nil {
			t.Fatalf("there is no note that it was interrupted: %v", err)
		}
		cfg.DataDir = data
		n, err := Open(cfg)
		if err == nil {
			n.Close(0)
		}
		if err == nil || !strings.Contains(err.Error(), "was not finished") || !strings.Contains(err.Error(), "delete the directory") {
			t.Fatalf("the start ends with %v", err)
		}
		if _, err := backup.Restore(context.Background(), o); !errors.Is(err, backup.ErrExists) {
			t.Fatalf("a restore over it ends with %v", err)
		}
	}
	if interrupted < 10 {
		t.Fatalf("it was interrupted %d times while it wrote", interrupted)
	}
}

// countdown is cancelled after it was looked at so many times.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestBackupLimits: images are bounded, and close when their connection goes, when
// nobody reads them, and when they are told to.
func TestBackupLimits(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	fails := func(c *caller, req *wire.Request, code wire.Code, says string) {
		t.Helper()
		if res := c.ask(req); res.Code != code || !strings.Contains(res.Message, says) {
			t.Errorf("%v is answered %v %s, want %v with %q", req.Op, res.Code, res.Message, code, says)
		}
	}
	read := func(id uint64, cursor ...byte) *wire.Request {
		return &wire.Request{Op: wire.OpBackupRead, Target: id, Cursor: cursor}
	}
	fails(c, &wire.Request{Op: wire.OpBackupOpen, Target: 99}, wire.InvalidArgument, "log 99")
	fails(c, read(1), wire.FailedPrecondition, "no such image")

	most := maxBackups * (len(r.node.logs) + 1)
	var ids []uint64
	for i := range most {
		ids = append(ids, c.openImage(uint64(1+i%3), i%2 == 0).ID)
	}
	fails(c, &wire.Request{Op: wire.OpBackupOpen, Target: 1}, wire.ResourceExhausted, fmt.Sprintf("at most %d", most))
	fails(c, read(ids[0], 1), wire.InvalidArgument, "cursor")
	fails(c, read(ids[0], 0, 0, 0, 0, 0, 0, 0, 9), wire.InvalidArgument, "read from 0 on, not from 9")
	fails(r.session(), read(ids[0]), wire.FailedPrecondition, "no such image") // another's
	c.must(&wire.Request{Op: wire.OpBackupClose, Target: ids[0]})
	c.must(&wire.Request{Op: wire.OpBackupClose, Target: ids[0]})
	fails(c, read(ids[0]), wire.FailedPrecondition, "no such image")
	other := r.session()
	theirs := other.openImage(1, false).ID // in its place

	r.node.Closed(c.session, false, true) // it goes on on another connection
	c.must(read(ids[1]))
	r.node.Closed(c.session, false, false)
	fails(c, read(ids[1]), wire.FailedPrecondition, "no such image")
	other.must(read(theirs))

	r.node.backups.mu.Lock()
	r.node.backups.idle = 20 * time.Millisecond
	r.node.backups.mu.Unlock()
	other.must(read(theirs)) // from here on it is given 20 ms
	eventually(t, "the image that nobody reads is closed", func() bool {
		r.node.backups.mu.Lock()
		defer r.node.backups.mu.Unlock()
		return len(r.node.backups.open) == 0
	})
	r.node.backups.work.Wait()
	fails(other, read(theirs), wire.FailedPrecondition, "no such image")
}

// TestBackupEndsWithTheNode: a node with open images stops.
func TestBackupEndsWithTheNode(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	c.must(write("o", "h:/a/x", time.Hour))
	for log := range 3 {
		c.openImage(uint64(log+1), false)
	}
	r.close()
}

// TestFleetGrowsFromBackup: nodes join one that was restored, and have all that it has.
func TestFleetGrowsFromBackup(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.LogCount = 4 })
	c := r.session()
	for i := range 50 {
		c.must(write("o", fmt.Sprintf("h:/%d/x", i), time.Hour))
	}
	if res := c.ask(write("waits", "h:/7/x", time.Hour)); res.Status != wire.StatusQueued {
		t.Fatalf("answered %v", res.Status)
	}
	data := filepath.Join(t.TempDir(), "restored")
	if _, err := backup.Restore(context.Background(), backup.Options{From: r.save(nil), DataDir: data, NodeID: "n-0"}); err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, 3, func(i int, c *Config) {
		if i == 0 {
			c.DataDir, c.FS, c.Bootstrap = data, vfs.Default, false
		}
	})
	f.settle(3)
	f.each(3, func(n *Node) {
		f.until(n.id.NodeID+" holds all logs", func() bool { return len(n.hosted()) == 5 })
	})
	newFleetClient(f.nodes[1]).mustAcquire(t, "h:/new/x", "p")
	digests := func(n *Node) string {
		var b strings.Builder
		for _, m := range n.hosted() {
			m.mu.Lock()
			for _, g := range m.order {
				fmt.Fprintf(&b, "%d:%x ", g.number, g.state.View().Digest())
			}
			m.mu.Unlock()
		}
		return b.String()
	}
	f.until("all have the same", func() bool {
		first := digests(f.nodes[0])
		return first == digests(f.nodes[1]) && first == digests(f.nodes[2])
	})
	for _, m := range f.nodes[2].hosted() {
		m.mu.Lock()
		for _, g := range m.order {
			if g.state.Counter() < backup.DefaultJump {
				t.Errorf("group %d of a node that joined counts from %d", g.number, g.state.Counter())
			}
		}
		m.mu.Unlock()
	}
	rest := &rig{t: t, cfg: f.cfgs[2]}
	rest.live.Store(f.nodes[2])
	s := rest.session()
	if res := s.inspect("h:/7/x"); res.Owner != "o" {
		t.Errorf("held by %q", res.Owner)
	}
	s.must(release("o", "h:/7/x"))
	if res := s.inspect("h:/7/x"); res.Owner != "waits" {
		t.Errorf("held by %q once it was free", res.Owner)
	}
}
