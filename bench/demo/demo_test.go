package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/internal/testkit/server"
)

// TestMain is the demo's program where that starts itself again as a worker.
func TestMain(m *testing.M) {
	if os.Getenv(jobVariable) != "" || os.Getenv(asDemo) != "" {
		main()
	}
	os.Exit(m.Run())
}

// asDemo makes the test binary the demo itself.
const asDemo = "DEMO_TEST_AS_DEMO"

// short is a run that is over soon.
func short(t *testing.T, bin string, fenced bool) config {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return config{
		server: bin, dir: t.TempDir(), duration: 6 * time.Second, files: 200, workers: 8, seed: seed, fenced: fenced,
		out: t.Output(),
	}
}

// TestDemoShort is the whole demo: nothing is lost with fencing, and without it the
// same run loses updates, so that it is known to see them.
func TestDemoShort(t *testing.T) {
	bin, err := server.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	t.Run("fencing", func(t *testing.T) {
		shown(t, func() bool {
			v, err := run(ctx, short(t, bin, true))
			if err != nil {
				t.Fatal(err)
			}
			v.print(t.Output())
			if !v.clean() {
				t.Fatal("the verdict is not clean")
			}
			return v.Acknowledged >= 50 && v.Renames >= 1 && v.Stale >= 1 && v.Killed >= 1
		})
	})
	t.Run("no fencing", func(t *testing.T) {
		shown(t, func() bool {
			v, err := run(ctx, short(t, bin, false))
			if err != nil {
				t.Fatal(err)
			}
			v.print(t.Output())
			if (v.Lost == 0) != v.clean() {
				t.Fatalf("%d lost, clean %v", v.Lost, v.clean())
			}
			return v.Lost > 0
		})
	})
}

// shown runs the demo until there was enough to see: a busy machine may have no worker
// that wrote what it read before its stop, in a run of seconds.
func shown(t *testing.T, enough func() bool) {
	t.Helper()
	for range 6 {
		if enough() {
			return
		}
	}
	t.Error("too little was done to show anything")
}

// TestInterrupt: Ctrl-C ends everything that was started.
func TestInterrupt(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	bin, err := server.Build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	tree := filepath.Join(dir, "demo")
	if err := os.Mkdir(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "--server", bin, "--dir", tree, "--workers", "4", "--files", "50")
	cmd.Env = append(os.Environ(), asDemo+"=1")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	within(t, "all workers begin", func() bool {
		journals, _ := os.ReadDir(filepath.Join(tree, journalDir))
		return len(journals) >= 4
	})
	if len(running(t, tree)) < 5 {
		t.Fatalf("running: %q", running(t, tree))
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
		t.Errorf("it ended with %v:\n%s", err, out.String())
	}
	if left := running(t, tree); len(left) > 0 {
		t.Errorf("still running: %q", left)
	}
}

// running lists the processes that were told of a directory.
func running(t *testing.T, dir string) (found []string) {
	t.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range procs {
		cmdline, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		environ, _ := os.ReadFile(filepath.Join(p, "environ"))
		if strings.Contains(string(cmdline)+string(environ), dir) {
			found = append(found, p+" "+string(cmdline))
		}
	}
	return found
}

// within looks again and again until f says yes.
func within(t *testing.T, what string, f func() bool) {
	t.Helper()
	late := time.NewTimer(30 * time.Second)
	defer late.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !f() {
		select {
		case <-again.C:
		case <-late.C:
			t.Fatalf("it does not come to this: %s", what)
		}
	}
}

// TestUsage: bad flags are refused by name.
func TestUsage(t *testing.T) {
	for _, c := range []config{
		{duration: time.Millisecond, files: 1000, workers: 8},
		{duration: time.Minute, files: 1, workers: 8},
		{duration: time.Minute, files: 1000, workers: 1},
		{duration: time.Minute, files: 1000, workers: 1000},
	} {
		if err := c.check(); err == nil || !strings.HasPrefix(err.Error(), "--") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if code := program([]string{"--workers", "0"}); code != exitUsage {
		t.Errorf("exit code %d", code)
	}
}
