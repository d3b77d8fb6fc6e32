package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// wakeEvery is how often a worker that is to end is woken up.
const wakeEvery = 100 * time.Millisecond

// child is a worker process, as its supervisor knows it.
type child struct {
	name    string
	cmd     *exec.Cmd
	in      io.WriteCloser
	stopped chan string   // says that it stopped itself, and on which file
	wanted  chan string   // says that it did what it was told to want
	ended   chan struct{} // closed when it is gone
	asleep  bool          // it is stopped, or was asked to stop itself. Of the supervisor's goroutine
	rival   atomic.Bool   // it was told to want a file, and somebody waits for that
	stderr  bytes.Buffer  // read once ended
	mu      struct {
		sync.Mutex
		tally tally
	}
}

// spawn starts this program again, as a worker.
func spawn(j *job) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	c := &child{name: j.name, cmd: exec.Command(self), stopped: make(chan string, 1), wanted: make(chan string, 1),
		ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), j.encode())
	c.cmd.SysProcAttr = ofItsOwn()
	c.cmd.Stderr = &c.stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start worker %s: %w", j.name, err)
	}
	c.in = in
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start worker %s: %w", j.name, err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start worker %s: %w", j.name, err)
	}
	go c.follow(out)
	return c, nil
}

// follow reads what the worker says until it ends.
func (c *child) follow(out io.Reader) {
	s := bufio.NewScanner(out)
	for s.Scan() {
		if file, is := strings.CutPrefix(s.Text(), stoppedWord); is {
			c.stopped <- file // one was asked for, and is taken before the next
			continue
		}
		if file, is := strings.CutPrefix(s.Text(), wantedWord); is {
			select {
			case c.wanted <- file:
			default: // nobody waits for it any more
			}
			continue
		}
		var t tally
		if _, err := fmt.Sscanf(s.Text(), tallyFormat, &t.adds, &t.moves, &t.stale, &t.gone, &t.lost); err == nil {
			c.mu.Lock()
			c.mu.tally = t
			c.mu.Unlock()
		}
	}
	_ = c.cmd.Wait() // how it ended is in ProcessState
	close(c.ended)
}

func (c *child) did() tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.tally
}

// signal may come too late, for a process that is gone: that is seen elsewhere.
func (c *child) signal(s syscall.Signal) { _ = c.cmd.Process.Signal(s) }

// tell says something to the worker, which may be gone.
func (c *child) tell(what string) { _, _ = io.WriteString(c.in, what+"\n") }

// kill ends the worker on whatever it does.
func (c *child) kill() {
	c.signal(syscall.SIGKILL)
	<-c.ended
}

// finish lets the worker end what it does. Who does not end is killed; by then it
// says false.
func (c *child) finish(within time.Duration) bool {
	_ = c.in.Close() // it may be gone already
	late := time.NewTimer(within)
	defer late.Stop()
	again := time.NewTicker(wakeEvery)
	defer again.Stop()
	for {
		c.signal(syscall.SIGCONT)
		select {
		case <-c.ended:
			return true
		case <-again.C: // it may have stopped itself just now
		case <-late.C:
			c.kill()
			return false
		}
	}
}
