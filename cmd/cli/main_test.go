package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/cmd/daemon"
)

// patient bounds every wait of these tests.
const patient = time.Minute

// scratch is removed after all tests.
var scratch string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "pathlock"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(scratch)
		defer func() {
			if d := shared.d; d != nil {
				d.Close(context.Background())
			}
		}()
		return m.Run()
	}())
}

// newDaemon starts a real daemon that keeps its data in dir.
func newDaemon(t testing.TB, dir string) *daemon.Daemon {
	t.Helper()
	cfg := daemon.DefaultConfig()
	cfg.DataDir, cfg.Bootstrap = dir, true
	cfg.NativeListen, cfg.Listen, cfg.RaftAddr = "127.0.0.1:0", "", "127.0.0.1:0"
	cfg.NativeUnix = filepath.Join(dir, "p.sock")
	cfg.LogCount, cfg.GroupCount = 2, 8
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	d, err := daemon.Start(context.Background(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	if err := d.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	return d
}

// ownDaemon starts a daemon for one test.
func ownDaemon(t testing.TB) *daemon.Daemon {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "d")
	if err != nil {
		t.Fatal(err)
	}
	d := newDaemon(t, dir)
	t.Cleanup(func() { d.Close(context.Background()) })
	return d
}

// shared is the daemon of all tests that need none of their own.
var shared struct {
	once sync.Once
	d    *daemon.Daemon
}

func sharedDaemon(t testing.TB) *daemon.Daemon {
	t.Helper()
	shared.once.Do(func() { shared.d = newDaemon(t, filepath.Join(scratch, "shared")) })
	if shared.d == nil {
		t.Fatal("there is no daemon")
	}
	return shared.d
}

// binary is pathlock, built once.
var binary = sync.OnceValues(func() (string, error) {
	file := filepath.Join(scratch, "pathlock")
	const pkg = "github.com/pathlockd/pathlockd/cmd/cli."
	build := exec.Command("go", "build", "-ldflags", "-X "+pkg+"version=v9.8.7 -X "+pkg+"commit=abc123", "-o", file,
		"../pathlock")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	return file, build.Run()
})

// result is what became of a call.
type result struct {
	code           int
	stdout, stderr string
}

// console is where calls are made: a server and an environment.
type console struct {
	t       testing.TB
	environ []string
}

func newConsole(t testing.TB) *console {
	return &console{t, []string{"PATHLOCK_ADDR=" + sharedDaemon(t).Addr()}}
}

// do makes one call in this process.
func (c *console) do(ctx context.Context, args ...string) result {
	var out, errs bytes.Buffer
	a := &app{environ: c.environ, stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
	code := a.main(ctx, patiently(args))
	return result{code, out.String(), errs.String()}
}

// patiently makes a call wait for a server that is slow because it shares its machine.
func patiently(args []string) []string { return append([]string{"--timeout=1m"}, args...) }

// run makes one call that ends with an exit code.
func (c *console) run(code int, args ...string) result {
	c.t.Helper()
	r := c.do(c.t.Context(), args...)
	if r.code != code {
		c.t.Fatalf("pathlock %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), r.code, code,
			r.stdout, r.stderr)
	}
	return r
}

// data makes a call with --json and decodes its data.
func (c *console) data(to any, args ...string) {
	c.t.Helper()
	r := c.run(ExitOK, append(args, "--json")...)
	var e struct {
		SchemaVersion int `json:"schema_version"`
		OK            bool
		Data          json.RawMessage
	}
	if err := json.Unmarshal([]byte(r.stdout), &e); err != nil || !e.OK || e.SchemaVersion != 1 {
		c.t.Fatalf("pathlock %s: %v: %s", strings.Join(args, " "), err, r.stdout)
	}
	if err := json.Unmarshal(e.Data, to); err != nil {
		c.t.Fatal(err)
	}
}

// until repeats a check until it is true.
func until(t testing.TB, what string, check func() bool) {
	t.Helper()
	over := time.After(patient)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !check() {
		select {
		case <-tick.C:
		case <-over:
			t.Fatalf("not seen in time: %s", what)
		}
	}
}

// waiters waits until that many requests wait for a path.
func (c *console) waiters(path string, n uint64) {
	c.t.Helper()
	until(c.t, "waiters of "+path, func() bool {
		var d described
		c.data(&d, "describe", path)
		return d.WaitersTotal == n
	})
}

// holder answers who holds a path, "" for nobody.
func (c *console) holder(path string) string {
	c.t.Helper()
	var d described
	c.data(&d, "describe", path)
	if len(d.Holders) == 0 {
		return ""
	}
	return d.Holders[0].Owner
}
