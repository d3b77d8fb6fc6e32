// Package examples_test runs the examples, stock clients and the pages that show them
// against a real daemon.
package examples_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/internal/testkit/server"
)

const (
	// within is how long an example may take: many times what it needs, for machines
	// that do much else.
	within = 90 * time.Second
	// python has the packages of the Python examples.
	python = ".venv/bin/python"
)

// daemon is the one that all tests share: what they lock has names of its own.
var daemon struct {
	*server.Process
	bin, data string
}

func TestMain(m *testing.M) {
	code, err := withDaemon(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// withDaemon builds the daemon, and runs something while it serves.
func withDaemon(run func() int) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "examples")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if daemon.bin, err = server.Build(ctx, dir); err != nil {
		return 1, err
	}
	daemon.data = filepath.Join(dir, "data")
	if daemon.Process, err = server.Start(ctx, daemon.bin, daemon.data, "--native_listen=127.0.0.1:0"); err != nil {
		return 1, err
	}
	defer daemon.Kill()
	code = run()
	stop, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return code, daemon.Stop(stop)
}

// environment tells an example where a daemon serves.
func environment(p *server.Process, data string) []string {
	return append(os.Environ(),
		"PATHLOCKD_GRPC="+p.GRPC, "PATHLOCKD_WEB=https://"+p.Web, "PATHLOCKD_H3="+p.H3,
		"PATHLOCKD_CA="+filepath.Join(data, "dev-cert.pem"))
}

// command is a program that ends with the test, or when it takes too long.
func command(t *testing.T, limit time.Duration, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, name, args...)
	c.WaitDelay = 5 * time.Second // for what it left behind to let go of its output
	c.Env = environment(daemon.Process, daemon.data)
	return c
}

// need fails the test when install.sh has something to do. Names without a slash are
// programs, the others files.
func need(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if filepath.Base(name) == name {
			if _, err := exec.LookPath(name); err != nil {
				t.Fatalf("%s is not installed: run examples/install.sh", name)
			}
		} else if _, err := os.Stat(name); err != nil {
			t.Fatalf("%v: run examples/install.sh", err)
		}
	}
}

// long says whether the long mode is asked for.
func long() bool { return os.Getenv("PATHLOCKD_LONG") != "" }

// TestExamples runs every example: each checks what it shows, and says so by its exit
// code.
func TestExamples(t *testing.T) {
	t.Parallel()
	// How long the client in Node keeps its subscription open. gRPC's servers are known
	// to cut off clients that ping every 30 s after two minutes or so.
	hold := 2
	if long() {
		hold = 240
	}
	for _, e := range []struct {
		name string
		run  []string
		need []string
	}{
		{"python-stdlib/mutex", []string{"python3", "python-stdlib/mutex.py"}, nil},
		{"python-stdlib/hierarchy", []string{"python3", "python-stdlib/hierarchy.py"}, nil},
		{"python-stdlib/semaphore", []string{"python3", "python-stdlib/semaphore.py"}, nil},
		{"python-stdlib/lifecycle", []string{"python3", "python-stdlib/lifecycle.py"}, nil},
		{"python-stdlib/preemption", []string{"python3", "python-stdlib/preemption.py"}, nil},
		{"python-stdlib/deadlock", []string{"python3", "python-stdlib/deadlock.py"}, nil},
		{"python-grpc", []string{python, "python-grpc/client.py"}, nil},
		{"python-http3", []string{python, "python-http3/client.py"}, nil},
		{"node-grpc", []string{"node", "node-grpc/client.js", strconv.Itoa(hold)},
			[]string{"node-grpc/node_modules/.stamp"}},
		{"php", []string{"php", "php/client.php"}, nil},
		{"shell", []string{"shell/lock.sh"}, []string{"bash", "curl", "jq"}},
	} {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			need(t, append(e.need, e.run[0])...)
			out, err := command(t, within+time.Duration(hold)*time.Second, e.run[0], e.run[1:]...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %v\n%s", e.run, err, out)
			}
		})
	}
}

// TestBrowser has a daemon of its own, which the example kills, and which is started
// again on the same files and the same port, as a service manager would.
func TestBrowser(t *testing.T) {
	t.Parallel()
	need(t, "node", "chromium", "browser/node_modules/.stamp")
	data := filepath.Join(t.TempDir(), "data")
	first, err := server.Start(t.Context(), daemon.bin, data, "--native_listen=127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	go func() {
		<-first.Ended()
		p, err := server.Start(t.Context(), daemon.bin, data, "--native_listen=127.0.0.1:0", "--web_listen="+first.Web)
		if err == nil {
			context.AfterFunc(t.Context(), p.Kill)
		}
		second <- err
	}()
	c := command(t, within, "node", "browser/run.js")
	c.Env = append(environment(first, data), "PATHLOCKD_PID="+strconv.Itoa(first.PID()))
	out, err := c.CombinedOutput()
	first.Kill() // if the example did not come to that
	if again := <-second; cmp.Or(err, again) != nil {
		t.Fatalf("browser/run.js: %v; the daemon's second start: %v\n%s", err, again, out)
	}
}
