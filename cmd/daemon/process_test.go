package daemon

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// built is pathlockd, built once for all tests.
var built string

// asSignalled is set for the process of TestSecondSignal.
const asSignalled = "DAEMON_TEST_AS_SIGNALLED"

func TestMain(m *testing.M) {
	if os.Getenv(asSignalled) != "" {
		ctx, _ := stopSignals(slog.New(slog.DiscardHandler), hangup{reload: func() error { return nil }}, false)
		fmt.Println("listening")
		<-ctx.Done()
		fmt.Println("draining")
		select {} // a drain that never ends
	}
	// Whoever runs the tests may ignore SIGHUP, as nohup does. What the tests start is not
	// to, and it does not inherit a signal that is handled.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "pathlockd")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		built = filepath.Join(dir, "pathlockd")
		build := exec.Command("go", "build", "-ldflags", "-X github.com/pathlockd/pathlockd/cmd/daemon.version=v9.8.7",
			"-o", built, "../pathlockd")
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			panic(err)
		}
		return m.Run()
	}())
}

// process is a pathlockd that runs.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	began time.Time
	ended chan struct{}

	mu    sync.Mutex
	more  chan struct{} // closed, and made anew, with each line
	lines []map[string]any
	raw   bytes.Buffer
}

// anyPorts is an environment in which several run at once.
var anyPorts = []string{
	"PATH=" + os.Getenv("PATH"), "PATHLOCKD_LISTEN=127.0.0.1:0", "PATHLOCKD_WEB_LISTEN=127.0.0.1:0",
	"PATHLOCKD_H3_LISTEN=127.0.0.1:0",
}

// runPathlockd starts pathlockd in a directory.
func runPathlockd(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(built, args...), ended: make(chan struct{}), more: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Env = anyPorts
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.began = time.Now()
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.follow(stderr)
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("pathlockd %s:\n%s", strings.Join(args, " "), p.raw.String())
		}
	})
	return p
}

// follow reads the log until the process ends.
func (p *process) follow(stderr io.Reader) {
	s := bufio.NewScanner(stderr)
	for s.Scan() {
		var line map[string]any
		json.Unmarshal(s.Bytes(), &line)
		p.mu.Lock()
		fmt.Fprintf(&p.raw, "%s\n", s.Bytes())
		p.lines = append(p.lines, line)
		close(p.more)
		p.more = make(chan struct{})
		p.mu.Unlock()
	}
	p.cmd.Wait()
	close(p.ended)
}

// logged waits for a line of the log with that message.
func (p *process) logged(msg string) map[string]any {
	p.t.Helper()
	timeout := time.After(patience)
	for seen := 0; ; {
		p.mu.Lock()
		lines, more := p.lines[seen:], p.more
		p.mu.Unlock()
		seen += len(lines)
		for _, l := range lines {
			if l["msg"] == msg {
				return l
			}
		}
		select {
		case <-more:
		case <-p.ended:
			p.t.Fatalf("pathlockd ended (%v) and never logged %q", p.cmd.ProcessState, msg)
		case <-timeout:
			p.t.Fatalf("pathlockd does not log %q", msg)
		}
	}
}

// ready waits until the process serves, and answers where and how long it took.
func (p *process) ready() (addr string, took time.Duration) {
	p.t.Helper()
	return p.logged("ready")["native"].(string), time.Since(p.began)
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// exit waits for the end and answers the exit code, -1 for a signal.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatal("pathlockd does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

// pathlockd runs pathlockd to its end.
func pathlockd(t *testing.T, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command(built, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}
