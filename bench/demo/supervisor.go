package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/pathlockd/pathlockd/internal/testkit/server"
)

// Folders of a demo.
const (
	treeDir    = "tree"
	journalDir = "journals"
	dataDir    = "data"
)

const (
	// finishWithin is how long workers get to end what they do.
	finishWithin = 6 * time.Second
	// settleWithin is how long stopped workers get to wake up before that.
	settleWithin = 15 * time.Second
	// maxWorkers keeps the demo within what one machine can show.
	maxWorkers = 256
	maxFiles   = 1_000_000
)

// config is what a run is told.
type config struct {
	server   string // binary of pathlockd, "" to build it
	dir      string // "" for one that is removed afterwards
	duration time.Duration
	files    int
	workers  int
	seed     uint64
	fenced   bool
	out      io.Writer
	terminal bool // out is one
}

func (c *config) check() error {
	switch {
	case c.duration < time.Second || c.duration > 24*time.Hour:
		return fmt.Errorf("--duration %v: must be from 1s to 24h", c.duration)
	case c.files < boxFiles || c.files > maxFiles:
		return fmt.Errorf("--files %d: must be from %d to %d", c.files, boxFiles, maxFiles)
	case c.workers < 2 || c.workers > maxWorkers:
		return fmt.Errorf("--workers %d: must be from 2 to %d", c.workers, maxWorkers)
	}
	return nil
}

// supervisor runs the server and the workers. Its fields belong to the goroutine
// that runs it; woken is how others reach it.
type supervisor struct {
	config
	rng     *rand.Rand
	proc    *server.Process
	addr    string
	workers []*child
	born    int // workers ever started
	killed  int
	gone    tally // of workers that are
	chaos   chaos
	woken   chan *child
	began   time.Time
	served  time.Time // since when the server does
	shown   time.Time
}

// run runs a demo and answers its verdict. It leaves no process behind.
func run(ctx context.Context, cfg config) (v *verdict, err error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	s := &supervisor{config: cfg, rng: rand.New(rand.NewPCG(cfg.seed, 1)), woken: make(chan *child, maxWorkers)}
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "pathlockd-demo-"); err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(s.dir) }() // it is in the folder for that
	}
	defer s.killAll()
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	s.began = time.Now()
	raging, stop := context.WithTimeout(ctx, s.duration)
	err = s.rage(raging)
	stop()
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	if err := s.finish(); err != nil {
		return nil, err
	}
	return judge(s.dir, layoutOf(s.files), s.killed)
}

// prepare makes the tree and starts everything.
func (s *supervisor) prepare(ctx context.Context) error {
	for _, d := range []string{treeDir, journalDir} {
		if err := os.Mkdir(filepath.Join(s.dir, d), 0o755); err != nil {
			return fmt.Errorf("a demo needs a directory of its own: %w", err)
		}
	}
	l := layoutOf(s.files)
	fmt.Fprintf(s.out, "%d files in %d boxes on %d shelves, in %s\n", l.files, l.boxes, l.shelves, s.dir)
	if err := l.create(filepath.Join(s.dir, treeDir)); err != nil {
		return err
	}
	if s.server == "" {
		fmt.Fprintln(s.out, "building pathlockd")
		var err error
		if s.server, err = server.Build(ctx, s.dir); err != nil {
			return err
		}
	}
	if err := s.serve(ctx, "127.0.0.1:0"); err != nil {
		return err
	}
	s.workers = make([]*child, s.config.workers)
	for slot := range s.workers {
		if err := s.employ(slot); err != nil {
			return err
		}
	}
	fence := "writers check tokens"
	if !s.fenced {
		fence = "NOBODY checks tokens"
	}
	fmt.Fprintf(s.out, "pathlockd serves on %s; %d workers; %s; seed %d; %v\n", s.addr, len(s.workers), fence,
		s.seed, s.duration)
	return nil
}

func (s *supervisor) serve(ctx context.Context, addr string) (err error) {
	s.proc, err = server.Start(ctx, s.server, filepath.Join(s.dir, dataDir), "--native_listen="+addr)
	if err != nil {
		return err
	}
	s.addr, s.served = s.proc.Addr, time.Now()
	return nil
}

// restart kills the server and starts it again, where clients know it.
func (s *supervisor) restart(ctx context.Context) error {
	s.chaos.crashes++
	s.proc.Kill()
	return s.serve(context.WithoutCancel(ctx), s.addr) // also at the end: the workers need it to finish
}

// employ starts a worker.
func (s *supervisor) employ(slot int) error {
	j := &job{
		name: fmt.Sprintf("w%d.%d", slot, s.born), addr: s.addr, dir: s.dir, files: s.files,
		seed: s.seed + uint64(s.born) + 1, fenced: s.fenced,
	}
	c, err := spawn(j)
	if err != nil {
		return err
	}
	s.born++
	s.workers[slot] = c
	return nil
}

// retire counts a worker that is about to be killed out.
func (s *supervisor) retire(c *child) {
	s.killed++
	s.gone.add(c.did())
}

// awake lists the workers that are not stopped.
func (s *supervisor) awake() (slots []int) {
	for i, c := range s.workers {
		if !c.asleep {
			slots = append(slots, i)
		}
	}
	return slots
}

// wait lets time pass, shows what happens in it, and sees that all are alive.
func (s *supervisor) wait(ctx context.Context, d time.Duration) error {
	over := time.NewTimer(d)
	defer over.Stop()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-over.C:
			return nil
		case <-ctx.Done():
			return nil
		case c := <-s.woken:
			c.asleep = false
		case <-s.proc.Ended():
			return fmt.Errorf("pathlockd ended by itself:\n%s", s.proc.Log())
		case <-tick.C:
			s.progress()
		}
		for _, c := range s.workers {
			select {
			case <-c.ended:
				return fmt.Errorf("worker %s ended by itself (%v):\n%s", c.name, c.cmd.ProcessState, c.stderr.Bytes())
			default:
			}
		}
	}
}

// settle lets those wake up that are stopped, for what they do then is what it is
// all about.
func (s *supervisor) settle(ctx context.Context) error {
	for over := time.Now().Add(settleWithin); len(s.awake()) < len(s.workers) && time.Now().Before(over); {
		if err := s.wait(ctx, progressEvery); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// finish lets all workers end what they do, at the same time, and the server after
// them.
func (s *supervisor) finish() error {
	ends := make(chan bool, len(s.workers))
	for _, c := range s.workers {
		go func() { ends <- c.finish(finishWithin) }()
	}
	for range s.workers {
		if !<-ends {
			s.killed++
		}
	}
	for _, c := range s.workers {
		s.gone.add(c.did())
		if !c.cmd.ProcessState.Success() && c.cmd.ProcessState.Exited() {
			return fmt.Errorf("worker %s failed (%v):\n%s", c.name, c.cmd.ProcessState, c.stderr.Bytes())
		}
	}
	s.workers = nil
	s.progressEnd()
	ctx, cancel := context.WithTimeout(context.Background(), finishWithin)
	defer cancel()
	return s.proc.Stop(ctx)
}

// killAll ends whatever still runs.
func (s *supervisor) killAll() {
	for _, c := range s.workers {
		if c != nil {
			c.kill()
		}
	}
	if s.proc != nil {
		s.proc.Kill()
	}
}
