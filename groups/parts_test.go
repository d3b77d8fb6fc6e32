package groups

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// onDisk is a node alone in a directory of the real disk.
func onDisk(t *testing.T, dir string) Config {
	return Config{
		DataDir: dir, Bootstrap: true, Segments: 1, GroupCount: 4, LogCount: 2, RaftAddr: freeAddr(t),
		RequestTimeout: 10 * time.Second, ElectionMin: 300 * time.Millisecond, Heartbeat: 50 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// usedDirectory makes a data directory in which somebody holds a lock.
func usedDirectory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	n, err := Open(onDisk(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	if !n.WaitReady(90 * time.Second) {
		t.Fatal("not ready")
	}
	newClusterClient(n).mustAcquire(t, "h:/x", "alice")
	if err := n.Close(time.Second); err != nil {
		t.Fatal(err)
	}
	return dir
}

// contents is a sum of every file in a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	sums := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		sums[path] = fmt.Sprintf("%x", sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

// unmark makes a directory one of a build that did not write whose the state is.
func unmark(t *testing.T, dir string) {
	t.Helper()
	id, err := datadir.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	id.Marked = false
	if err := id.Save(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, rows.StateDir, rows.OwnerFile)); err != nil {
		t.Fatal(err)
	}
}

// TestForeignParts: a data directory with a part that is another directory's, or is
// missing, does not start; nothing in it is changed, and it starts once that is mended.
func TestForeignParts(t *testing.T) {
	t.Parallel()
	own, other := usedDirectory(t), usedDirectory(t)
	earlier := t.TempDir()
	if err := os.CopyFS(earlier, os.DirFS(other)); err != nil {
		t.Fatal(err)
	}
	unmark(t, earlier)
	swap := func(part, from string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			if err := os.RemoveAll(filepath.Join(dir, part)); err != nil {
				t.Fatal(err)
			}
			if from == "" {
				return
			}
			if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(filepath.Join(from, part))); err != nil {
				t.Fatal(err)
			}
		}
	}
	// fresh has an empty file system where the part was mounted.
	fresh := func(part string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			swap(part, "")(t, dir)
			if err := os.MkdirAll(filepath.Join(dir, part, "lost+found"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		want  string
	}{
		"raft of another":      {swap("raft", other), "raft/ is of another directory (raft host id "},
		"raft missing":         {swap("raft", ""), "its raft logs are gone ("},
		"raft on a fresh disk": {fresh("raft"), "its raft logs are gone ("},
		"state of another": {swap(rows.StateDir, other),
			"state/ is of another directory (raft host id "},
		"state of another, of an old build": {swap(rows.StateDir, earlier),
			`state/ is of another directory, or not whole (it has no file "owner", and was given one)`},
		"state missing":         {swap(rows.StateDir, ""), "its state is gone ("},
		"state on a fresh disk": {fresh(rows.StateDir), "its state is gone ("},
		"state missing, made by an old build": {func(t *testing.T, dir string) {
			unmark(t, dir)
			swap(rows.StateDir, "")(t, dir)
		}, "its state is gone ("},
		"identity missing": {func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, rows.IdentityFile)); err != nil {
				t.Fatal(err)
			}
		}, "has raft/, of raft host id "},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(own)); err != nil {
				t.Fatal(err)
			}
			c.spoil(t, dir)
			before := contents(t, dir)
			n, err := Open(onDisk(t, dir))
			if err == nil {
				n.Close(0)
				t.Fatal("it started")
			}
			for _, want := range []string{"data_dir " + dir + ": ", c.want, rows.Remedy} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nwant: %s", err, want)
				}
			}
			if after := contents(t, dir); !maps.Equal(before, after) {
				t.Error("the start that was refused changed something")
			}
			for _, part := range []string{"raft", rows.StateDir} {
				swap(part, own)(t, dir)
			}
			copyOf(t, filepath.Join(own, rows.IdentityFile), filepath.Join(dir, rows.IdentityFile))
			mustHoldAlice(t, dir)
		})
	}
}

// TestEarlierState: a state database that does not say whose it is, because an earlier
// build made it, is marked at its next start.
func TestEarlierState(t *testing.T) {
	t.Parallel()
	dir := usedDirectory(t)
	unmark(t, dir)
	mustHoldAlice(t, dir)
	id, err := datadir.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	owner, err := os.ReadFile(filepath.Join(dir, rows.StateDir, rows.OwnerFile))
	if err != nil || string(owner) != id.HostID+"\n" || !id.Marked {
		t.Errorf("state/ is marked as %q's (%v), and the identity of %s says %v", owner, err, id.HostID, id.Marked)
	}
}

func copyOf(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// mustHoldAlice starts a node on a directory that usedDirectory made.
func mustHoldAlice(t *testing.T, dir string) {
	t.Helper()
	n, err := Open(onDisk(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close(time.Second)
	if !n.WaitReady(90 * time.Second) {
		t.Fatal("not ready")
	}
	if res := newClusterClient(n).ask(t, &wire.Request{Op: wire.OpIsOwnerAlive, Owner: "alice"}); !res.Flag {
		t.Errorf("its lock is gone: %+v", res)
	}
}
