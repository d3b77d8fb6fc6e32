package main

import (
	"fmt"
	"time"

	"github.com/pathlockd/pathlockd/bench/load"
)

// pairsOfC compares the pairs a second of distinct paths with ceiling C, in turns:
// the same server, but that its engine does nothing, under the same load.
func (s *suite) pairsOfC(logs int) (outcome, error) {
	bare, dropBare, err := s.serve(serveOptions{logs: logs, noEngine: true})
	if err != nil {
		return outcome{}, err
	}
	defer dropBare()
	real, dropReal, err := s.serve(serveOptions{logs: logs})
	if err != nil {
		return outcome{}, err
	}
	defer dropReal()
	var shares, ceilings, rates []float64
	var last load.Result
	for range s.rounds {
		c, err := s.settled(bare)
		if err != nil {
			return outcome{}, fmt.Errorf("ceiling C: %w", err)
		}
		if last, err = s.settled(real); err != nil {
			return outcome{}, err
		}
		s.say("%.0f pairs/s, p50 %v, p99 %v; C %.0f pairs/s, p50 %v, p99 %v", last.PerSecond(), last.P50, last.P99,
			c.PerSecond(), c.P50, c.P99)
		shares = append(shares, 100*last.PerSecond()/c.PerSecond())
		ceilings, rates = append(ceilings, c.PerSecond()), append(rates, last.PerSecond())
	}
	return outcome{median(shares), fmt.Sprintf("%.0f pairs/s, p50 %v, p99 %v; C %.0f pairs/s; %d connections x "+
		"%d in flight",
		median(rates), last.P50, last.P99, median(ceilings), s.conns, s.inFlight)}, nil
}

// pairs runs the workload of distinct paths.
func (s *suite) pairs(addr string, conns, inFlight int, measure time.Duration) (load.Result, error) {
	return load.Pairs{Addr: addr, Conns: conns, InFlight: inFlight, Pool: s.pool, Warm: min(s.warm, measure/4),
		Measure: measure}.Run(s.ctx)
}

// settled runs the workload on a server, and waits until that is at rest again: the other one
// is measured next.
func (s *suite) settled(c *child) (load.Result, error) {
	res, err := s.pairs(c.addr, s.conns, s.inFlight, s.measure)
	if err != nil {
		return res, err
	}
	return res, s.settle(c.cmd.Process.Pid)
}

// oneClient is one client that asks for one thing at a time, against half of what
// the disk does: a pair is two entries.
func (s *suite) oneClient() (outcome, error) {
	c, drop, err := s.serve(serveOptions{logs: 16})
	if err != nil {
		return outcome{}, err
	}
	defer drop()
	b, err := s.besideDisk(func(int) (load.Result, error) { return s.pairs(c.addr, 1, 1, s.turn) })
	return outcome{2 * b.share, fmt.Sprintf("%.0f pairs/s, p50 %v, p99 %v; %s", b.rate, b.last.P50, b.last.P99,
		b.disk)}, err
}

// hotClients is how many connections wait for the hot mutex.
const hotClients = 16

// hotMutex is one mutex handed from client to client, against what the disk does: a
// hand-over is one entry.
func (s *suite) hotMutex() (outcome, error) {
	c, drop, err := s.serve(serveOptions{logs: 16})
	if err != nil {
		return outcome{}, err
	}
	defer drop()
	b, err := s.besideDisk(func(turn int) (load.Result, error) {
		return load.Handover{Addr: c.addr, Path: turn, Conns: hotClients, Waiters: 1, Warm: s.turn / 4,
			Measure: s.turn}.Run(s.ctx)
	})
	return outcome{b.share, fmt.Sprintf("%.0f hand-overs/s to %d clients, each in its turn, wait p50 %v, p99 %v; %s",
		b.rate, hotClients, b.last.P50, b.last.P99, b.disk)}, err
}

// longQueue is the same with very many clients in the queue.
func (s *suite) longQueue() (outcome, error) {
	c, drop, err := s.serve(serveOptions{logs: 16})
	if err != nil {
		return outcome{}, err
	}
	defer drop()
	before, err := c.heap(s.ctx)
	if err != nil {
		return outcome{}, err
	}
	res, err := load.Handover{
		Addr: c.addr, Conns: hotClients, Waiters: s.waiters / hotClients, Warm: s.warm, Measure: s.measure,
		Queued: func() { s.say("%d clients wait", s.waiters/hotClients*hotClients) },
	}.Run(s.ctx)
	if err != nil {
		return outcome{}, err
	}
	after, err := c.heap(s.ctx)
	return outcome{res.PerSecond(), fmt.Sprintf("%d clients wait for one path over %d connections, each gets it in "+
		"its turn; server heap and stacks grew by %.0f MiB",
		s.waiters, hotClients, (after-before)/(1<<20))}, err
}
