package groups

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	gvfs "github.com/lni/vfs"

	"github.com/pathlockd/pathlockd/groups/backup"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

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
	if other.node.Run() == r.node.Run() {
		t.Errorf("both count their runs from %d: event ids of the old cluster are given again", r.node.Run())
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
	} else if res := c.ask(&wire.Request{Op: wire.OpAssertFencing, Owner: "keeper", Token: again.Token,
		Paths: []string{"h:/a/kept"}}); res.Status != wire.StatusOK {
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
	if res := c.must(&wire.Request{Op: wire.OpGetPolicy, Namespace: "h:/slots"}); res.Algorithm != wire.Semaphore ||
		!res.Flag {
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

// TestRestoreIsAboveQueuedTokens: an owner waits with a token of its own as the backup is taken. In the old cluster it
// is granted with that later, and the next with one that is minted above it. The new cluster mints above both, and
// gives neither again.
func TestRestoreIsAboveQueuedTokens(t *testing.T) {
	const own = int64(1_767_225_600_000_000_000) // a clock's ns
	const path = "h:/a/p"
	r := newRig(t, nil)
	c := r.session()
	c.must(write("holder", path, time.Hour))
	waits := write("waits", path, time.Hour)
	waits.Token, waits.QueueTTLMillis = own, 3_600_000
	if res := c.ask(waits); res.Status != wire.StatusQueued {
		t.Fatalf("%+v", res)
	}
	dir := r.save(nil)
	c.must(release("holder", path))
	if res := c.inspect(path); res.Owner != "waits" || res.Token != own {
		t.Fatalf("held as %+v", res)
	}
	c.must(release("waits", path))
	old := c.must(write("next", path, time.Hour)).Token
	if old <= own {
		t.Fatalf("token %d came after %d", old, own)
	}
	for _, leaves := range []bool{true, false} { // else its turn comes
		other, made := r.restore(dir)
		c := other.session()
		if leaves {
			c.must(&wire.Request{Op: wire.OpReleaseAll, Owner: "waits"})
		}
		c.must(release("holder", path))
		if res := c.inspect(path); res.Owner != "" {
			t.Errorf("held by %s with the token %d of the old cluster", res.Owner, res.Token)
			c.must(release(res.Owner, path))
		}
		if res := c.must(write("later", path, time.Hour)); res.Token <= old {
			t.Errorf("it is answered token %d, with base %d; the old cluster gave %d", res.Token, made.Base, old)
		}
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
		if err == nil || !strings.Contains(err.Error(), "was not finished") ||
			!strings.Contains(err.Error(), "delete the directory") {
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
