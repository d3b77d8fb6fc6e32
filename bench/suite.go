package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/bench/ceiling"
	"github.com/pathlockd/pathlockd/bench/cost"
	"github.com/pathlockd/pathlockd/bench/load"
)

// scale is how much a run measures.
type scale struct {
	conns    int
	inFlight int
	pool     int // paths
	rounds   int // of what is compared with C, in turns
	warm     time.Duration
	measure  time.Duration
	frames   time.Duration // of the network
	turns    int           // of what is compared with the disk
	turn     time.Duration
	sync     time.Duration // of one measuring of the disk

	held    int // locks
	owners  int // of these
	waiters int // on one path
	queued  int // elsewhere
	steps   int // of the engine, in one round
	trials  int // rounds of the engine
	idle    int // connections
	watch   time.Duration
	quiet   time.Duration // for which a server must be at rest
}

// fullScale is what budgets are stated for. shortScale shows in seconds that all of
// it works, and says nothing about a budget.
var (
	fullScale = scale{
		conns: 64, inFlight: 256, pool: 1_000_000, rounds: 3, warm: time.Second, measure: 5 * time.Second,
		frames: 2 * time.Second, turns: 7, turn: 1500 * time.Millisecond, sync: 500 * time.Millisecond,
		held: 1_000_000, owners: 10_000, waiters: 100_000, queued: 1_000_000, steps: 200_000, trials: 7,
		idle: 10_000, watch: 20 * time.Second, quiet: time.Second,
	}
	shortScale = scale{
		conns: 4, inFlight: 16, pool: 1000, rounds: 1, warm: 20 * time.Millisecond, measure: 150 * time.Millisecond,
		frames: 100 * time.Millisecond, turns: 1, turn: 150 * time.Millisecond, sync: 50 * time.Millisecond,
		held: 5000, owners: 100, waiters: 500, queued: 2000, steps: 2000, trials: 3,
		idle: 50, watch: 300 * time.Millisecond, quiet: 100 * time.Millisecond,
	}
)

// suite is one run of the budgets. It measures one thing at a time.
type suite struct {
	scale
	ctx       context.Context
	dir       string // where the servers and the disk's file write
	stderr    io.Writer
	progress  io.Writer
	pathlockd string // the binary, "" until it is built
	dirs      int

	full  *cost.Group // with the locks held
	bytes float64     // heap of one of them
	pair  cost.Pair
	tree  *treeCost
}

// outcome is what a budget's measuring found.
type outcome struct {
	value float64
	note  string // the figures behind it
}

func (s *suite) say(format string, args ...any) { fmt.Fprintf(s.progress, "  "+format+"\n", args...) }

// newDir is a directory of a server's own.
func (s *suite) newDir() (string, error) {
	s.dirs++
	dir := filepath.Join(s.dir, fmt.Sprintf("node%d", s.dirs))
	return dir, os.Mkdir(dir, 0o700)
}

// serve starts a server, on a directory of its own if it needs one. drop ends it
// and removes what it wrote.
func (s *suite) serve(opt serveOptions) (c *child, drop func(), err error) {
	if !opt.echo {
		if opt.data, err = s.newDir(); err != nil {
			return nil, nil, err
		}
	}
	if c, err = startChild(s.ctx, s.stderr, opt.args()...); err != nil {
		return nil, nil, err
	}
	return c, func() {
		c.end()
		if opt.data != "" {
			_ = os.RemoveAll(opt.data) // the run's directory is removed in the end
		}
	}, nil
}

// network is ceiling N: frames a second there and back through a reactor that does
// nothing.
func (s *suite) network() (outcome, error) {
	c, drop, err := s.serve(serveOptions{echo: true})
	if err != nil {
		return outcome{}, err
	}
	defer drop()
	p := load.Pairs{Addr: c.addr, Conns: s.conns, InFlight: s.inFlight, Pool: s.pool, Echo: true, Warm: s.frames / 4,
		Measure: s.frames}
	many, err := p.Run(s.ctx)
	if err != nil {
		return outcome{}, err
	}
	p.Conns, p.InFlight = 1, 1
	one, err := p.Run(s.ctx)
	return outcome{2 * many.PerSecond(), fmt.Sprintf("%d connections x %d in flight; 1 x 1: %.0f frames/s", s.conns,
		s.inFlight, 2*one.PerSecond())}, err
}

// besideDisk is what a workload did between measurings of the disk: medians of the
// turns.
type besideDisk struct {
	share float64 // of what the disk did around it
	rate  float64 // a second
	last  load.Result
	disk  string // what the disk did, in words
}

// besideDisk runs a workload and measures the disk, in turns.
func (s *suite) besideDisk(workload func(turn int) (load.Result, error)) (b besideDisk, err error) {
	d, err := ceiling.NewDisk(s.dir)
	if err != nil {
		return b, err
	}
	defer d.Close()
	var shares, rates, syncs []float64
	before, err := d.PerSecond(s.sync)
	if err != nil {
		return b, err
	}
	for turn := range s.turns {
		if b.last, err = workload(turn); err != nil {
			return b, err
		}
		after, err := d.PerSecond(s.sync)
		if err != nil {
			return b, err
		}
		rate := b.last.PerSecond()
		s.say("%.0f/s, p50 %v, p99 %v; the disk before %.0f, after %.0f syncs/s", rate, b.last.P50, b.last.P99,
			before, after)
		rates, syncs, shares = append(rates, rate), append(syncs, (before+after)/2),
			append(shares, rate/((before+after)/2))
		before = after
	}
	b.share, b.rate = median(shares), median(rates)
	b.disk = fmt.Sprintf("Y %.0f syncs/s (%.0f to %.0f)", median(syncs), syncs[0], syncs[len(syncs)-1])
	return b, nil
}

// median of the values, which it sorts.
func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
