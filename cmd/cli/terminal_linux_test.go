package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tty is a pseudo terminal and what was written to it.
type tty struct {
	master, slave *os.File
	mu            sync.Mutex
	shown         bytes.Buffer
}

func newTTY(t *testing.T) *tty {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal("no pseudo terminals: ", err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal("no pseudo terminals: ", err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal("no pseudo terminals: ", err)
	}
	y := &tty{master: master, slave: slave}
	var wait sync.WaitGroup
	wait.Go(func() {
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			y.mu.Lock()
			y.shown.Write(b[:n])
			y.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	t.Cleanup(func() { slave.Close(); wait.Wait(); master.Close() }) // with the last slave the reader ends
	return y
}

func (y *tty) shows(text string) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	return strings.Contains(y.shown.String(), text)
}

func (y *tty) types(t *testing.T, keys string) {
	t.Helper()
	if _, err := y.master.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// runOn runs a command on a terminal, in a session of its own.
func (c *console) runOn(y *tty, args ...string) *process {
	c.t.Helper()
	return c.startWith(func(p *process) {
		p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = y.slave, y.slave, y.slave
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	}, append([]string{"run"}, args...)...)
}

// stopped says whether a process was stopped.
func stopped(pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "T")
}

// Commands on the terminal start nothing: a shell that waits in vfork for its child to
// begin is not stopped, while the child is.
const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

func TestRunOnATerminal(t *testing.T) {
	t.Parallel()
	c, y := newConsole(t), newTTY(t)
	p := c.runOn(y, "tty:/a/x", "--", "sh", "-c", `echo ready; read line; echo "got <$line>"; read line`)
	until(t, "the command", func() bool { return y.shows("ready") })
	y.types(t, "hello\n")
	until(t, "that the command reads the terminal", func() bool { return y.shows("got <hello>") })
	pid := p.cmd.Process.Pid
	for range 2 {
		y.types(t, ctrlZ)
		until(t, "that run stops with its command", func() bool { return stopped(pid) })
		syscall.Kill(pid, syscall.SIGCONT)
		until(t, "that run goes on", func() bool { return !stopped(pid) })
		until(t, "that the command has the terminal again", func() bool {
			front, err := unix.IoctlGetInt(int(y.master.Fd()), unix.TIOCGPGRP)
			// Before it goes on it would not be stopped, but only not go on.
			return err == nil && front != pid && !stopped(front)
		})
	}
	if h := c.holder("tty:/a/x"); h == "" {
		t.Error("nobody holds it")
	}
	y.types(t, ctrlC)
	p.exit(130)
	if h := c.holder("tty:/a/x"); h != "" {
		t.Errorf("%s still holds it", h)
	}
}

// onceStarted is the context of a command that calls a function when exec.Cmd looks at it
// and the command has been started, before Start returns.
type onceStarted struct {
	context.Context
	cmd **exec.Cmd
	do  func()
}

func (c onceStarted) Done() <-chan struct{} {
	if (*c.cmd).Process != nil {
		c.do()
	}
	return nil
}

// TestStoppedAtOnce: a command that is stopped before run knows that it was started is
// noticed. (Not parallel: other children would be heard of, too.)
func TestStoppedAtOnce(t *testing.T) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGCHLD)
	defer signal.Stop(heard)
	var cmd *exec.Cmd
	seen := false
	cmd = exec.CommandContext(onceStarted{t.Context(), &cmd, func() {
		until(t, "that the command is stopped", func() bool { return stopped(cmd.Process.Pid) })
		select {
		case <-heard: // from here on nobody hears of it who did not listen
			seen = true
		case <-time.After(patient):
		}
	}}, "sh", "-c", "kill -STOP $$")
	k := &child{cmd: cmd}
	stops, quiet, err := k.start()
	defer quiet()
	if err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if !seen {
		t.Fatal("nothing was looked at while the command was started: the test has to find another moment")
	}
	select {
	case <-stops:
	case <-time.After(patient):
		t.Error("it was stopped, and nobody hears of that")
	}
}

// TestLostWhileSuspended: a command whose lock was lost meanwhile does not go on.
func TestLostWhileSuspended(t *testing.T) {
	t.Parallel()
	c, y := newConsole(t), newTTY(t)
	p := c.runOn(y, "asleep:/a/x", "--ttl", "4s", "--", "sh", "-c",
		`trap 'echo continued' CONT; echo ready; while :; do :; done`)
	until(t, "the command", func() bool { return y.shows("ready") })
	y.types(t, ctrlZ)
	until(t, "that run stops with its command", func() bool { return stopped(p.cmd.Process.Pid) })
	until(t, "the end of the lease", func() bool { return c.holder("asleep:/a/x") == "" })
	p.cmd.Process.Signal(syscall.SIGCONT)
	p.exit(ExitFailed)
	until(t, "why it ended", func() bool { return y.shows("the lock on asleep:/a/x is lost") })
	if y.shows("continued") {
		t.Error("the command went on")
	}
}
