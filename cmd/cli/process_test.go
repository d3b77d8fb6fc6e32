package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
)

// process is the built pathlock as it runs.
type process struct {
	t           testing.TB
	cmd         *exec.Cmd
	out, errout bytes.Buffer
	ended       chan struct{}
}

// start starts the built binary.
func (c *console) start(args ...string) *process {
	c.t.Helper()
	return c.startWith(func(*process) {}, args...)
}

// startWith is start after a change.
func (c *console) startWith(change func(*process), args ...string) *process {
	c.t.Helper()
	file, err := binary()
	if err != nil {
		c.t.Fatal(err)
	}
	p := &process{t: c.t, cmd: exec.Command(file, patiently(args)...), ended: make(chan struct{})}
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, c.environ...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errout
	p.cmd.WaitDelay = time.Second // what it left behind may hold its output open
	change(p)
	if err := p.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() { p.cmd.Wait(); close(p.ended) }()
	c.t.Cleanup(func() { p.cmd.Process.Kill(); <-p.ended })
	return p
}

// exit waits for its end and checks its exit code.
func (p *process) exit(code int) *process {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patient):
		p.t.Fatal("it does not end")
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Fatalf("exit code %d, want %d\n%s%s", got, code, p.out.String(), p.errout.String())
	}
	return p
}

// says checks what stood on standard error.
func (p *process) says(want ...string) {
	p.t.Helper()
	for _, w := range want {
		if !strings.Contains(p.errout.String(), w) {
			p.t.Errorf("standard error is\n%swant\n%s", p.errout.String(), w)
		}
	}
}

// written waits for a file and answers the numbers in it.
func written(t testing.TB, file string) (numbers []int) {
	t.Helper()
	until(t, file, func() bool {
		b, err := os.ReadFile(file)
		return err == nil && bytes.HasSuffix(b, []byte("\n"))
	})
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range strings.Fields(string(b)) {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// dead waits until a process is gone, or a zombie that nobody collected.
func dead(t testing.TB, pid int) {
	t.Helper()
	until(t, fmt.Sprintf("the end of process %d", pid), func() bool {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return true
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, state, _ := strings.Cut(string(stat), ") ")
		return err != nil || strings.HasPrefix(state, "Z")
	})
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	p := c.start("version").exit(ExitOK)
	if !strings.HasPrefix(p.out.String(), "pathlock v9.8.7 (commit abc123, go1.") {
		t.Errorf("version is %s", p.out.String())
	}
	c.start("acquire", "codes:/a/x", "--owner", "coder").exit(ExitOK)
	c.start("acquire", "codes:/a/x", "--no-wait").exit(ExitFailed).says("not acquired: codes:/a/x is " +
		"write-locked by coder")
	c.start("acquire", "codes:/a/x", "--wait", "20ms").exit(ExitTimeout)
	c.start("acquire", "codes").exit(ExitUsage)
	c.start().exit(ExitUsage).says("Usage:\n")
	c.start("health", "--addr", "unix:"+filepath.Join(t.TempDir(),
		"none")).exit(ExitUnavailable).says("cannot reach the server", "no such file", "pathlockd --dev")
	c.start("health", "--addr", "unix:"+sharedDaemon(t).UnixAddr()).exit(ExitOK)
	// Several: the first that is there. What each said is told when none is.
	c.start("health", "--addr", "127.0.0.1:1, unix:"+sharedDaemon(t).UnixAddr()).exit(ExitOK)
	c.start("health", "--addr", "127.0.0.1:1,127.0.0.1:2").exit(ExitUnavailable).says("127.0.0.1:1", "127.0.0.1:2")
	if p := c.start("--help").exit(ExitOK); !strings.Contains(p.out.String(), "acquire     Take a lock") {
		t.Errorf("help is\n%s", p.out.String())
	}
	if p := c.start("completion", "bash").exit(ExitOK); !strings.Contains(p.out.String(), "__start_pathlock") {
		t.Error("no completion for bash")
	}
	if p := c.start("__complete", "policy", "set", "t:/a", "").exit(ExitOK); !strings.HasPrefix(p.out.String(),
		"recursive_rw\npoint_rw\n") {
		t.Errorf("it completes\n%s", p.out.String())
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	a := &app{environ: c.environ, stdout: full, stderr: new(bytes.Buffer)}
	if code := a.main(t.Context(), []string{"status"}); code != ExitFailed {
		t.Errorf("exit code %d with a full disk", code)
	}
}

// TestInterrupted: the real thing, with a real signal.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	c.run(ExitOK, "acquire", "int:/a/x", "--owner", "other")
	for _, args := range [][]string{{"acquire", "int:/a/x", "--wait", "forever"},
		{"run", "int:/a/x", "--wait", "forever", "--", "true"}} {
		p := c.start(args...)
		c.waiters("int:/a/x", 1)
		p.cmd.Process.Signal(syscall.SIGINT)
		p.exit(130).says("stopped by a signal (interrupt)")
		c.waiters("int:/a/x", 0)
	}
	p := c.start("acquire", "int:/a/x", "--wait", "forever")
	c.waiters("int:/a/x", 1)
	p.cmd.Process.Kill()
	c.waiters("int:/a/x", 0)
}

func TestRun(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	p := c.start("run", "run:/a/x", "--owner", "runner", "--label", "job=nightly", "--", "sh", "-c",
		`echo "$PATHLOCK_OWNER $PATHLOCK_TOKEN $PATHLOCK_ADDR"; cat; exit 7`).exit(7)
	f := strings.Fields(p.out.String())
	if len(f) != 3 || f[0] != "runner" || f[2] != sharedDaemon(t).Addr() {
		t.Fatalf("the command found %q", f)
	}
	if n, err := strconv.Atoi(f[1]); err != nil || n < 1 {
		t.Errorf("the token is %s", f[1])
	}
	if h := c.holder("run:/a/x"); h != "" {
		t.Errorf("%s still holds it", h)
	}
	c.start("run", "run:/a/x", "--", "sh", "-c", "kill -KILL $$").exit(137)
	c.start("run", "run:/a/x", "--", "no-such-command").exit(ExitNotFound)
	c.start("run", "run:/a/x", "--", "/").exit(ExitNotRunnable)

	// What the owner holds beside the run's lock outlives the run.
	c.run(ExitOK, "acquire", "run:/a/other", "--owner", "keeper", "--ttl", "1h")
	c.start("run", "run:/a/x", "--owner", "keeper", "--", "true").exit(ExitOK)
	var o owned
	if c.data(&o, "locks", "keeper"); len(o.Locks) != 1 || o.Locks[0].ExpiresInMillis < 10_000 {
		t.Errorf("keeper holds %+v", o.Locks)
	}

	c.run(ExitOK, "acquire", "run:/a/x", "--owner", "other")
	c.start("run", "run:/a/x", "--no-wait", "--", "true").exit(ExitFailed).says("write-locked by other")
	p = c.start("run", "run:/a/x", "--json", "--wait", "20ms", "--", "true").exit(ExitTimeout)
	if !strings.HasPrefix(p.out.String(), `{"schema_version":1,"ok":false,"error":{"code":"WAIT_TIMEOUT"`) {
		t.Errorf("it says\n%s", p.out.String())
	}
}

// TestRunPassesSignalsOn: the command decides what becomes of SIGTERM.
func TestRunPassesSignalsOn(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	file := filepath.Join(t.TempDir(), "up")
	p := c.start("run", "sig:/a/x", "--", "sh", "-c", `trap 'exit 9' TERM; echo $$ > `+file+
		`; while :; do sleep 0.01; done`)
	written(t, file)
	p.cmd.Process.Signal(syscall.SIGTERM)
	p.exit(9)
	if h := c.holder("sig:/a/x"); h != "" {
		t.Errorf("%s still holds it", h)
	}
}

// TestRunEndsTheCommand: whatever takes the lock away, nothing of the command is left.
func TestRunEndsTheCommand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		trap string
		code int
		says []string
	}{
		{"kill", nil, "exit 3", ExitFailed, []string{"the lock on kill:/a/x is lost",
			"the command was ended (SIGTERM)"}},
		{"stubborn", []string{"--kill-after", "100ms"}, "", ExitFailed, []string{"(SIGTERM, and SIGKILL after 100ms)"}},
		{"at-once", []string{"--kill-after", "0"}, "exit 3", ExitFailed, []string{"(SIGKILL)"}},
		{"revoke", []string{"--stop-on-revoke"}, "exit 3", 3,
			[]string{"somebody asked to let go of revoke:/a/x; the command was ended (SIGTERM)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			con := newConsole(t)
			file := filepath.Join(t.TempDir(), "pids")
			script := fmt.Sprintf(`trap '%s' TERM; (trap '' TERM; exec sleep 100) & echo $$ $! > %s; while :; do sleep 0.01; done`, c.trap, file)
			if c.name == "kill" || c.name == "revoke" {
				script = fmt.Sprintf(`trap '%s' TERM; sleep 100 & echo $$ $! > %s; while :; do sleep 0.01; done`,
					c.trap, file)
			}
			path := c.name + ":/a/x"
			args := append([]string{"run", path, "--owner", "victim-" + c.name, "--ttl", "10s"}, c.args...)
			p := con.start(append(args, "--", "sh", "-c", script)...)
			pids := written(t, file)
			by := "kill"
			if c.name == "revoke" {
				by = "revoke"
			}
			con.run(ExitOK, by, "victim-"+c.name)
			p.exit(c.code).says(c.says...)
			for _, pid := range pids {
				dead(t, pid)
			}
			if h := con.holder(path); h != "" {
				t.Errorf("%s still holds it", h)
			}
		})
	}
}

// TestRunWithoutServer: the lease runs out unseen, and the command must not go on.
func TestRunWithoutServer(t *testing.T) {
	t.Parallel()
	d := ownDaemon(t)
	c := &console{t, []string{"PATHLOCK_ADDR=" + d.Addr()}}
	file := filepath.Join(t.TempDir(), "pids")
	p := c.start("run", "gone:/a/x", "--ttl", "1s", "--json", "--", "sh", "-c", `echo $$ > `+file+`; sleep 100`)
	pids := written(t, file)
	if err := d.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	p.exit(ExitFailed).says(`"ok":false`, `"code":"LOST"`, "could not be renewed in time", `"details":{"owner":`)
	if p.out.Len() > 0 {
		t.Errorf("standard output is the command's own, and has\n%s", p.out.String())
	}
	dead(t, pids[0])
}

// TestRunIsKilled: the command dies with run, and the lock is free soon after.
func TestRunIsKilled(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	file := filepath.Join(t.TempDir(), "pids")
	p := c.start("run", "killed:/a/x", "--ttl", "1h", "--", "sh", "-c", `trap '' TERM; echo $$ > `+file+
		`; while :; do sleep 0.01; done`)
	pids := written(t, file)
	began := time.Now()
	p.cmd.Process.Kill()
	dead(t, pids[0])
	until(t, "the end of the lock", func() bool { return c.holder("killed:/a/x") == "" })
	if took := time.Since(began); took > pathlockd.DefaultGrace+time.Minute { // its TTL is an hour
		t.Errorf("it took %v", took)
	}
}
