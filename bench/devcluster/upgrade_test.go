package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
	"github.com/pathlockd/pathlockd/internal/testkit/server"
)

// upgrade is a cluster whose nodes run one of two builds: of format 1, and of format 2,
// which is one of no release (groups/rows/newest_format2.go). Whichever entry or snapshot
// a build cannot read ends it.
type upgrade struct {
	*testing.T
	ctx           context.Context
	dir           string
	before, after string // binaries
	c             *server.Cluster
	client        *pathlockd.Client
	load          *load
}

// restart stops a node and starts it with a binary, and waits until all is well.
func (u *upgrade) restart(node int, bin string) {
	u.Helper()
	if err := u.c.Stop(u.ctx, node); err != nil {
		u.Fatal(err)
	}
	u.c.Use(bin)
	if err := u.c.Start(u.ctx, node); err != nil {
		u.Fatal(err)
	}
	u.until("node "+strconv.Itoa(node)+" is back", nil)
}

// until waits until all nodes are there and each log has its voters, until locks were
// taken since, and until what is missing is nothing.
func (u *upgrade) until(what string, missing func(format uint32, nodes map[string][2]uint32) string) {
	u.Helper()
	before := u.load.done.Load()
	within(u.ctx, u.T, func() string {
		doc, err := u.client.ClusterStatus(u.ctx)
		if err != nil {
			return what + ": " + err.Error()
		}
		nodes := make(map[string][2]uint32)
		for _, n := range doc.Nodes {
			if n.Alive {
				nodes[n.NodeID] = n.Formats
			}
		}
		switch {
		case !doc.Healthy || len(nodes) < 3:
			return fmt.Sprintf("%s: %d nodes, problems %q", what, len(nodes), doc.Problems)
		case u.load.done.Load() < before+20:
			return what + ": no locks are taken"
		case missing != nil:
			if m := missing(doc.Format, nodes); m != "" {
				return what + ": " + m
			}
		}
		return ""
	})
}

// stamp is the format that a data directory says.
func stamp(t *testing.T, dir string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "identity.json"))
	if err != nil {
		t.Fatal(err)
	}
	var id struct{ Format int }
	if err := json.Unmarshal(b, &id); err != nil {
		t.Fatal(err)
	}
	return id.Format
}

// data is the directory of a node.
func (u *upgrade) data(node int) string { return filepath.Join(u.dir, strconv.Itoa(node)) }

// written expects a format to be the one that the cluster writes, and that data
// directories say.
func (u *upgrade) written(format uint32, want map[string][2]uint32) {
	u.Helper()
	u.until(fmt.Sprint("format ", format), func(now uint32, nodes map[string][2]uint32) string {
		if now != format || !maps.Equal(nodes, want) {
			return fmt.Sprintf("format %d is written, nodes %v", now, nodes)
		}
		return ""
	})
	for node := range 3 {
		if s := stamp(u.T, u.data(node)); s != int(format) {
			u.Errorf("format %d is written, and the directory of node %d says %d", format, node, s)
		}
	}
}

// refused has the old build started on a directory of format 2, where it must end, say
// what to do and leave everything as it is.
func refused(t *testing.T, dir string, start func() error) {
	t.Helper()
	before := hashes(t, dir)
	err := start()
	if want := "has format 2, this build reads 1: run a newer version"; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("a build of format 1 on a directory of format 2: %v", err)
	}
	if after := hashes(t, dir); !maps.Equal(before, after) {
		t.Error("a build that cannot read a directory changed it")
	}
}

// hashes are those of all files in a directory, but for the one that says which process
// had it last.
func hashes(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	all := make(map[string][32]byte)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "pathlockd.lock" {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = sha256.Sum256(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestUpgrade: the nodes of a cluster at work change to a build of the next format, one
// after the other and once back. The format goes up when the last one has, and then no
// older build comes back.
func TestUpgrade(t *testing.T) {
	u := &upgrade{T: t, dir: filepath.Join(t.TempDir(), "cluster")}
	for bin, flags := range map[*string][]string{&u.before: nil, &u.after: {"-tags", "format2"}} {
		var err error
		if *bin, err = server.Build(t.Context(), t.TempDir(), flags...); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	u.ctx = ctx
	alone(ctx, t, u.before, u.after)
	cfg := config{server: u.before, dir: u.dir, nodes: 3, clients: 4, gap: 10 * time.Millisecond, logs: 2,
		basePort: freePorts(t, 3*server.PortsEach)}
	var err error
	if u.c, err = cfg.start(ctx); err != nil {
		t.Fatal(err)
	}
	defer u.c.Close()
	if u.client, err = dial(ctx, u.c.Addrs()); err != nil {
		t.Fatal(err)
	}
	defer u.client.Close()
	working, stop := context.WithCancel(ctx)
	defer stop()
	u.load = work(working, cfg, u.c.Addrs())

	formats := func(a, b, c [2]uint32) map[string][2]uint32 {
		return map[string][2]uint32{u.c.NodeID(0): a, u.c.NodeID(1): b, u.c.NodeID(2): c}
	}
	one, both, two := [2]uint32{1, 1}, [2]uint32{1, 2}, [2]uint32{2, 2}
	u.written(1, formats(one, one, one))
	u.restart(0, u.after)
	u.restart(1, u.after)
	u.written(1, formats(both, both, one)) // or node 2 were gone
	u.restart(0, u.before)                 // the way back is open
	u.written(1, formats(one, both, one))
	u.restart(0, u.after)
	u.restart(2, u.after)
	u.written(2, formats(two, two, two))

	if err := u.c.Stop(ctx, 0); err != nil {
		t.Fatal(err)
	}
	refused(t, u.data(0), func() error { u.c.Use(u.before); return u.c.Start(ctx, 0) })
	u.restart(0, u.after)
	u.written(2, formats(two, two, two))
	if err := u.c.Add(); err != nil {
		t.Fatal(err)
	}
	if err := u.c.Start(ctx, 3); err != nil {
		t.Fatal(err)
	}
	within(ctx, t, func() string {
		if s := stamp(t, u.data(3)); s != 2 {
			return fmt.Sprintf("the directory of a node that joined says format %d", s)
		}
		return ""
	})
	stop()
	if failed := u.load.failed.Load(); failed > 0 {
		_, _, worst := u.load.look()
		t.Errorf("%d requests failed, the last with: %s", failed, worst)
	}
}

// alone upgrades a node that cannot have others, whose format goes up at once.
func alone(ctx context.Context, t *testing.T, before, after string) {
	t.Helper()
	dir := t.TempDir()
	start := func(bin string) error {
		p, err := server.Start(ctx, bin, dir, "--native_listen=127.0.0.1:0")
		if err == nil {
			p.Kill()
		}
		return err
	}
	for i, bin := range []string{before, after} {
		if err := start(bin); err != nil {
			t.Fatal(err)
		}
		if s := stamp(t, dir); s != i+1 {
			t.Errorf("the directory of a node alone with a build of format %d says %d", i+1, s)
		}
	}
	refused(t, dir, func() error { return start(before) })
}
