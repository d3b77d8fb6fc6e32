package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/bench/load"
	"github.com/pathlockd/pathlockd/internal/testkit/server"
)

// nodeArgs are what pathlockd is started with, beside its directory.
var nodeArgs = []string{"--log_count=16", "--group_count=256", "--native_listen=127.0.0.1:0"}

// stopWithin is how long a node may take to drain.
const stopWithin = 30 * time.Second

// serverHeap is what a held lock takes of a whole server's memory.
func (s *suite) serverHeap() (outcome, error) {
	c, drop, err := s.serve(serveOptions{logs: 16})
	if err != nil {
		return outcome{}, err
	}
	defer drop()
	before, err := c.heap(s.ctx)
	if err != nil {
		return outcome{}, err
	}
	s.say("taking %d locks by %d owners", s.held, s.owners)
	if err := (load.Fill{Addr: c.addr, Locks: s.held, Owners: s.owners}).Run(s.ctx); err != nil {
		return outcome{}, err
	}
	if err := s.settle(c.cmd.Process.Pid); err != nil {
		return outcome{}, err
	}
	after, err := c.heap(s.ctx)
	return outcome{(after - before) / float64(s.held),
			fmt.Sprintf("%d locks of %d owners in a server: heap and stacks, raft's log in memory too",
				s.held, s.owners)},
		err
}

// idleConnections is what a connection that does nothing takes of a server's
// memory. Its client end is in another process.
func (s *suite) idleConnections() (outcome, error) {
	c, drop, err := s.serve(serveOptions{logs: 16})
	if err != nil {
		return outcome{}, err
	}
	defer drop()
	before, err := c.heap(s.ctx)
	if err != nil {
		return outcome{}, err
	}
	clients, err := startChild(s.ctx, s.stderr, holdName, "--addr="+c.addr, fmt.Sprintf("--conns=%d", s.idle))
	if err != nil {
		return outcome{}, err
	}
	defer clients.end()
	after, err := c.heap(s.ctx)
	return outcome{(after - before) / float64(s.idle) / 1024, fmt.Sprintf("%d connections after hello: heap and stacks",
		s.idle)}, err
}

// build builds pathlockd, once.
func (s *suite) build() error {
	if s.pathlockd != "" {
		return nil
	}
	s.say("building pathlockd")
	bin, err := server.Build(s.ctx, s.dir)
	s.pathlockd = bin
	return err
}

// start starts pathlockd and answers how long that took, from the process's start
// until it serves.
func (s *suite) start(dir string) (*server.Process, time.Duration, error) {
	if err := s.build(); err != nil {
		return nil, 0, err
	}
	began := time.Now()
	p, err := server.Start(s.ctx, s.pathlockd, dir, nodeArgs...)
	return p, time.Since(began), err
}

// restart is the time to start with many locks on disk: after SIGKILL and after a
// stop, whichever takes longer.
func (s *suite) restart() (outcome, error) {
	dir, err := s.newDir()
	if err != nil {
		return outcome{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // with the run's directory, at the latest
	p, _, err := s.start(dir)
	if err != nil {
		return outcome{}, err
	}
	defer func() { p.Kill() }() // whichever runs by then
	s.say("taking %d locks", s.held)
	if err := (load.Fill{Addr: p.Addr, Locks: s.held, Owners: s.owners}).Run(s.ctx); err != nil {
		return outcome{}, err
	}
	if err := s.settle(p.PID()); err != nil {
		return outcome{}, err
	}
	p.Kill()
	killed, err := s.again(&p, dir)
	if err != nil {
		return outcome{}, err
	}
	ctx, cancel := context.WithTimeout(s.ctx, stopWithin)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		return outcome{}, err
	}
	stopped, err := s.again(&p, dir)
	return outcome{max(killed, stopped).Seconds(), fmt.Sprintf("%d locks; %.2f s after SIGKILL, %.2f s after SIGTERM",
		s.held, killed.Seconds(), stopped.Seconds())}, err
}

// again starts pathlockd on a directory that holds all the locks.
func (s *suite) again(p **server.Process, dir string) (time.Duration, error) {
	next, took, err := s.start(dir)
	if err != nil {
		return 0, err
	}
	*p = next
	s.say("serves after %v", took.Round(time.Millisecond))
	if n := recovered(next.Log()); n != s.held {
		return 0, fmt.Errorf("%d locks were taken and %d are there after a start", s.held, n)
	}
	return took, nil
}

// recovered is how many locks the log of pathlockd says it found.
func recovered(log string) int {
	for line := range strings.Lines(log) {
		var ready struct {
			Msg   string `json:"msg"`
			Locks int    `json:"recovered_locks"`
		}
		if json.Unmarshal([]byte(line), &ready) == nil && ready.Msg == "ready" {
			return ready.Locks
		}
	}
	return -1
}

// idleNode is the share of a processor that a node without clients uses, in
// percent.
func (s *suite) idleNode() (outcome, error) {
	dir, err := s.newDir()
	if err != nil {
		return outcome{}, err
	}
	p, _, err := s.start(dir)
	if err != nil {
		return outcome{}, err
	}
	defer p.Kill()
	if err := s.settle(p.PID()); err != nil {
		return outcome{}, err
	}
	s.say("watching it for %v", s.watch)
	share, err := used(s.ctx, p.PID(), s.watch)
	return outcome{100 * share, fmt.Sprintf("256 groups in 16 logs, over %v", s.watch)}, err
}
