package cli

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
	"github.com/pathlockd/pathlockd/cmd/daemon"
	"github.com/pathlockd/pathlockd/groups/backup"
	"github.com/pathlockd/pathlockd/wire"
)

// consoleOf makes calls to a daemon.
func consoleOf(t testing.TB, d *daemon.Daemon) *console {
	return &console{t, []string{"PATHLOCK_ADDR=" + d.Addr()}}
}

// restoredDaemon starts a daemon on what a restore wrote, with the settings it told.
func restoredDaemon(t testing.TB, r *restoredData) *daemon.Daemon {
	t.Helper()
	cfg := daemon.DefaultConfig()
	cfg.DataDir, cfg.NodeID, cfg.NativeListen, cfg.Listen, cfg.RaftAddr = r.DataDir, r.NodeID, "127.0.0.1:0", "",
		"127.0.0.1:0"
	cfg.LogCount, cfg.GroupCount, cfg.Bootstrap = r.LogCount, r.GroupCount, true
	d, err := daemon.Start(context.Background(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close(context.Background()) })
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	if err := d.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestBackup saves a daemon's state while clients are at work, verifies it, restores
// it elsewhere, and looks at what is there.
func TestBackup(t *testing.T) {
	old := ownDaemon(t)
	c := consoleOf(t, old)
	c.run(ExitOK, "acquire", "tenant:/acme/x", "--owner", "alice", "--ttl", "1h")
	c.run(ExitOK, "policy", "set", "tenant:/slots", "semaphore")
	c.run(ExitOK, "acquire", "tenant:/slots/a", "--owner", "alice", "--permits", "2", "--ttl", "1h")
	queue(t, old, "tenant:/acme/x", "bob", "carol")

	ctx, stop := context.WithCancel(context.Background())
	worked := make(chan error, 1)
	go func() { worked <- work(ctx, old.Addr()) }()
	dir := filepath.Join(t.TempDir(), "backup")
	var saved savedData
	c.data(&saved, "backup", "save", dir)
	stop()
	if err := <-worked; err != nil {
		t.Fatal(err)
	}
	if saved.ClusterID != old.Node().ClusterID() || saved.Logs != 3 || saved.Bytes == 0 || saved.Rows == 0 ||
		saved.Local {
		t.Errorf("saved %+v", saved)
	}
	var seen verifiedData
	c.data(&seen, "backup", "verify", dir)
	if seen.Waiters != 2 || seen.Locks < 2 || seen.Policies != 1 || len(seen.Logs) != 3 || seen.GroupCount != 8 ||
		seen.ClusterID != saved.ClusterID {
		t.Errorf("verified %+v", seen)
	}
	text := c.run(ExitOK, "backup", "verify", dir).stdout
	for _, want := range []string{"a whole backup of cluster " + saved.ClusterID, "system", "WAITERS", "all"} {
		if !strings.Contains(text, want) {
			t.Errorf("verify does not say %q:\n%s", want, text)
		}
	}
	late := token(t, c.run(ExitOK, "acquire", "tenant:/late/x", "--owner", "late", "--ttl", "1h", "--json").stdout)

	var restored restoredData
	c.data(&restored, "backup", "restore", "--from", dir, "--data-dir", filepath.Join(t.TempDir(), "data"), "--node-id",
		"pathlockd-5")
	if restored.Locks != seen.Locks || restored.ClusterID == saved.ClusterID || restored.From != saved.ClusterID ||
		restored.TokensAbove < late {
		t.Errorf("restored %+v", restored)
	}
	c = consoleOf(t, restoredDaemon(t, &restored))
	c.run(ExitFailed, "assert", "tenant:/acme/x", "--owner", "alice", "--token", "1")
	c.run(ExitFailed, "assert", "tenant:/late/x", "--owner", "late", "--token", fmt.Sprint(late))
	again := token(t, c.run(ExitOK, "acquire", "tenant:/acme/x", "--owner", "alice", "--ttl", "1h", "--json").stdout)
	if again <= restored.TokensAbove {
		t.Errorf("the holder has token %d, not above %d", again, restored.TokensAbove)
	}
	c.run(ExitOK, "assert", "tenant:/acme/x", "--owner", "alice", "--token", fmt.Sprint(again))
	var d described
	c.data(&d, "describe", "tenant:/acme/x")
	if len(d.Waiters) != 2 || d.Waiters[0].Owner != "bob" || d.Waiters[1].Owner != "carol" {
		t.Errorf("waiting: %+v", d.Waiters)
	}
	if now := token(t, c.run(ExitOK, "acquire", "tenant:/late/x", "--owner", "late", "--ttl", "1h",
		"--json").stdout); now <= restored.TokensAbove {
		t.Errorf("token %d, not above %d", now, restored.TokensAbove)
	}
}

// queue has owners wait for a path, one after the other.
func queue(t testing.TB, d *daemon.Daemon, path string, owners ...string) {
	t.Helper()
	c, err := pathlockd.Dial(t.Context(), d.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, owner := range owners {
		res, err := c.Do(t.Context(), &wire.Request{
			Op: wire.OpAcquire, Owner: owner, TTLMillis: 60_000, QueueTTLMillis: wire.MaxTTLMillis,
			Locks: []wire.LockRequest{{Path: path}},
		})
		if err != nil || res.Status != wire.StatusQueued {
			t.Fatalf("%s: %+v, %v", owner, res, err)
		}
	}
}

// work takes locks and lets them go until ctx ends.
func work(ctx context.Context, addr string) error {
	c, err := pathlockd.Dial(ctx, addr)
	if err != nil {
		return nil
	}
	defer c.Close()
	for i := 0; ctx.Err() == nil; i++ {
		path := fmt.Sprintf("tenant:/work/%d", i%500)
		if _, err := c.Do(ctx, &wire.Request{Op: wire.OpAcquire, Owner: "worker", TTLMillis: 60_000,
			Locks: []wire.LockRequest{{Path: path}}}); err != nil {
			break
		}
		if _, err := c.Do(ctx, &wire.Request{Op: wire.OpRelease, Owner: "worker",
			Releases: []wire.ReleaseRequest{{Path: path}}}); err != nil {
			break
		}
	}
	if ctx.Err() == nil {
		return fmt.Errorf("the work ended while the backup was taken")
	}
	return nil
}

// token reads the fencing token of an envelope.
func token(t testing.TB, envelope string) int64 {
	t.Helper()
	_, rest, _ := strings.Cut(envelope, `"fencing_token":`)
	var n int64
	if _, err := fmt.Sscan(strings.TrimRight(rest[:strings.IndexAny(rest, ",}")], ",}"), &n); err != nil {
		t.Fatalf("%v in %s", err, envelope)
	}
	return n
}

// TestBackupWhilePoliciesChange: images that do not fit together are taken anew.
func TestBackupWhilePoliciesChange(t *testing.T) {
	d := ownDaemon(t)
	c := consoleOf(t, d)
	client, err := pathlockd.Dial(t.Context(), d.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			case <-time.After(20 * time.Millisecond):
			}
			ns := fmt.Sprintf("moves:/a/%d", i%7)
			if err := client.SetNamespacePolicy(t.Context(), ns, wire.PointRW, ""); err != nil {
				done <- err
				return
			}
			if i%2 == 1 {
				if err := client.DeleteNamespacePolicy(t.Context(), ns, ""); err != nil {
					done <- err
					return
				}
			}
		}
	}()
	for i := range 5 {
		dir := filepath.Join(t.TempDir(), "backup")
		if r := c.do(t.Context(), "backup", "save", dir); r.code != ExitOK &&
			!strings.Contains(r.stderr, "no images of all logs fit together") {
			t.Fatalf("save %d: exit code %d\n%s", i, r.code, r.stderr)
		} else if r.code == ExitOK {
			c.run(ExitOK, "backup", "verify", dir)
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	c.run(ExitOK, "backup", "save", filepath.Join(t.TempDir(), "quiet"))
}

// TestBackupLocal: a node that leads nothing has a backup of what it knows.
func TestBackupLocal(t *testing.T) {
	d := ownDaemon(t)
	c := consoleOf(t, d)
	c.run(ExitOK, "acquire", "tenant:/acme/x", "--owner", "alice", "--ttl", "1h")
	dir := filepath.Join(t.TempDir(), "backup")
	var saved savedData
	c.data(&saved, "backup", "save", dir, "--local")
	r := c.run(ExitOK, "backup", "verify", dir)
	if !saved.Local || !strings.Contains(r.stdout, "may have lagged") {
		t.Errorf("saved %+v, verified\n%s", saved, r.stdout)
	}
}

// TestStraysAreTold: verify and restore name what of a local backup is lost.
func TestStraysAreTold(t *testing.T) {
	data := verifiedData{Local: true, Strays: []strayData{
		{Owner: "alice", Path: "h:/a/b/p", Namespace: "h:/a"}, {Owner: "bob", Path: "h:/a/b/q", Namespace: "h:/a",
			Waits: true},
	}}
	var b bytes.Buffer
	data.write(&b)
	for _, want := range []string{"A restore ends this", "alice  h:/a/b/p  h:/a       holds",
		"bob    h:/a/b/q  h:/a       waits"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("verify does not say %q:\n%s", want, b.String())
		}
	}
}

// TestBackupFailures: what goes wrong has its exit code, and leaves nothing.
func TestBackupFailures(t *testing.T) {
	c := newConsole(t)
	root := t.TempDir()
	dir := filepath.Join(root, "backup")
	c.run(ExitOK, "backup", "save", dir)
	at := func(name string) string { return filepath.Join(root, name) }
	fails := func(code int, says string, args ...string) {
		t.Helper()
		r := c.run(code, args...)
		if !strings.Contains(r.stderr, says) {
			t.Errorf("pathlock %s does not say %q:\n%s", strings.Join(args, " "), says, r.stderr)
		}
		if r := c.run(code, append(args, "--json")...); !strings.Contains(r.stdout, `"ok":false`) ||
			strings.Count(r.stdout, "\n") != 1 {
			t.Errorf("pathlock %s --json: %s", strings.Join(args, " "), r.stdout)
		}
	}
	fails(ExitUsage, "DIRECTORY is missing", "backup", "save")
	fails(ExitUsage, "say save, verify or restore", "backup")
	fails(ExitUsage, `"load"`, "backup", "load")
	fails(ExitUsage, "is there already\n  nothing was overwritten; name another directory", "backup", "save", dir)
	fails(ExitUsage, "DIRECTORY: must not be empty", "backup", "save", "")
	fails(ExitUsage, "make that first: mkdir -p "+at("no/such"), "backup", "save", at("no/such/place"))
	fails(ExitUnavailable, "cannot reach", "backup", "save", at("b2"), "--addr", "127.0.0.1:1")
	fails(ExitUnavailable, "cannot reach", "backup", "save", at("b2")+"/", "--addr", "127.0.0.1:1")
	fails(ExitFailed, "is no backup", "backup", "verify", at("nothing"))
	fails(ExitFailed, "name a directory that pathlock backup save wrote", "backup", "verify", root)
	fails(ExitFailed, "is no backup", "backup", "restore", "--from", at("nothing"), "--data-dir", at("d"))
	fails(ExitUsage, "is no directory\n  name a directory that does not exist, or is empty", "backup", "restore",
		"--from", dir, "--data-dir", filepath.Join(dir, backup.FileOf(2)))
	if r := c.run(ExitFailed, "backup", "verify", at("nothing"), "--json"); !strings.Contains(r.stdout,
		`"code":"NO_BACKUP"`) {
		t.Errorf("what is no backup: %s", r.stdout)
	}
	fails(ExitUsage, "--from", "backup", "restore", "--data-dir", at("d"))
	fails(ExitUsage, "--data-dir", "backup", "restore", "--from", dir)
	fails(ExitUsage, "end in a digit", "backup", "restore", "--from", dir, "--data-dir", at("d"), "--node-id", "x")
	fails(ExitUsage, "token-jump", "backup", "restore", "--from", dir, "--data-dir", at("d"), "--token-jump", "0")
	fails(ExitUsage, "restore where nothing is", "backup", "restore", "--from", dir, "--data-dir", dir)
	file := filepath.Join(dir, backup.FileOf(2))
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(bytes.Clone(b[:len(b)-1]), ^b[len(b)-1]), 0o600); err != nil {
		t.Fatal(err)
	}
	fails(ExitFailed, "the backup is damaged: log-0002.rows has the checksum", "backup", "verify", dir)
	fails(ExitFailed, "the backup is damaged: log-0002.rows has the checksum", "backup", "restore", "--from", dir,
		"--data-dir", at("d"))
	left, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.Name() == "backup" }) || len(left) != 1 {
		t.Errorf("what is left is %v", left)
	}
}

// TestBackupOfManyLocks says how long a backup and a restore of 100 000 locks take, in
// the long mode.
func TestBackupOfManyLocks(t *testing.T) {
	if os.Getenv("PATHLOCKD_LONG") == "" {
		t.Skip("set PATHLOCKD_LONG=1 for this")
	}
	const owners, each = 10_000, 10
	d := ownDaemon(t)
	client, err := pathlockd.Dial(t.Context(), d.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var taken sync.WaitGroup
	for w := range 50 {
		taken.Add(1)
		go func() {
			defer taken.Done()
			for o := w; o < owners; o += 50 {
				req := &wire.Request{Op: wire.OpAcquire, Owner: fmt.Sprintf("owner-%05d", o), TTLMillis: 3_600_000}
				for i := range each {
					req.Locks = append(req.Locks,
						wire.LockRequest{Path: fmt.Sprintf("tenant:/customer-%03d/projects/%05d/%d", o%200, o, i)})
				}
				if res, err := client.Do(t.Context(), req); err != nil || res.Status != wire.StatusOK {
					t.Errorf("%+v, %v", res, err)
				}
			}
		}()
	}
	taken.Wait()
	c := consoleOf(t, d)
	dir, data := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "data")
	var saved savedData
	began := time.Now()
	c.data(&saved, "backup", "save", dir)
	t.Logf("save: %v, %d rows, %d bytes", time.Since(began), saved.Rows, saved.Bytes)
	began = time.Now()
	var seen verifiedData
	c.data(&seen, "backup", "verify", dir)
	t.Logf("verify: %v", time.Since(began))
	if seen.Locks != owners*each {
		t.Errorf("%d locks", seen.Locks)
	}
	began = time.Now()
	var restored restoredData
	c.data(&restored, "backup", "restore", "--from", dir, "--data-dir", data)
	t.Logf("restore: %v", time.Since(began))
	began = time.Now()
	restoredDaemon(t, &restored)
	t.Logf("ready on it: %v", time.Since(began))
}
