package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A child is bench itself as another process. It says "ready", with an address if
// it serves, on its standard output, then answers each line of its standard input
// with one, and ends with its input.

const (
	// readyWithin is how long a child may take to be ready.
	readyWithin = time.Minute
	// endWithin is how long it may take to end before it is killed.
	endWithin = 10 * time.Second
)

// child is one, as its parent sees it.
type child struct {
	addr  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // closed when its output ends
	once  sync.Once
}

// startChild runs a command of bench and waits until it is ready.
func startChild(ctx context.Context, stderr io.Writer, args ...string) (*child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(exe, args...), lines: make(chan string, 1)}
	c.cmd.Stderr = stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- s.Text()
		}
	}()
	line, err := c.line(ctx)
	ready, addr, _ := strings.Cut(line, " ")
	if err == nil && ready != "ready" {
		err = fmt.Errorf("it says %q", line)
	}
	if err != nil {
		c.end()
		return nil, fmt.Errorf("bench %s: %w", strings.Join(args, " "), err)
	}
	c.addr = addr
	return c, nil
}

// line is the next line of its output.
func (c *child) line(ctx context.Context) (string, error) {
	late := time.NewTimer(readyWithin)
	defer late.Stop()
	select {
	case line, ok := <-c.lines:
		if !ok {
			return "", errors.New("it ended")
		}
		return line, nil
	case <-late.C:
		return "", fmt.Errorf("it says nothing for %v", readyWithin)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// ask writes a line and waits for the answer.
func (c *child) ask(ctx context.Context, line string) (string, error) {
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		return "", err
	}
	return c.line(ctx)
}

// heap is the child's heap and stacks in bytes, after a forced collection.
func (c *child) heap(ctx context.Context) (float64, error) {
	line, err := c.ask(ctx, askHeap)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(line, 64)
}

// end ends it, and waits until it is gone.
func (c *child) end() {
	c.once.Do(func() {
		_ = c.in.Close()
		late := time.AfterFunc(endWithin, func() { _ = c.cmd.Process.Kill() })
		defer late.Stop()
		for range c.lines { // until it ends
		}
		_ = c.cmd.Wait() // how it ended does not matter any more
	})
}

// obey is the child's side: it answers lines until there are no more.
func obey(in io.Reader, out io.Writer, answer func(command, argument string) (string, error)) error {
	s := bufio.NewScanner(in)
	for s.Scan() {
		command, argument, _ := strings.Cut(s.Text(), " ")
		said, err := answer(command, argument)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, said)
	}
	return s.Err()
}
