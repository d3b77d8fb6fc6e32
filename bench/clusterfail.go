package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/bench/load"
	"github.com/pathlockd/pathlockd/internal/testkit/server"
)

const (
	// failoverMost is twice the election timeout that nodes have by default.
	failoverMost = 2 * 1500 * time.Millisecond
	// failoverWithin is when a log that is still not served counts as lost.
	failoverWithin = time.Minute
	// idleMost is what a node of an idle cluster may use of a core, in percent.
	idleMost = 3
)

// failover is how long requests stood still when the node was killed that led most.
type failover struct {
	Rounds int     `json:"rounds"`
	Logs   int     `json:"logs"` // that the killed nodes led, over all rounds
	Median float64 `json:"median_ms"`
	Max    float64 `json:"max_ms"`
	Others float64 `json:"others_max_ms"` // the same of logs that other nodes led
	Most   float64 `json:"budget_ms"`
	Status string  `json:"status"`
}

func (f *failover) text() string {
	return fmt.Sprintf("fail-over after kill -9 of the node that leads most, %d rounds, %d logs: median %.0f ms, "+
		"max %.0f ms (budget %.0f ms: %s); logs of others: max %.0f ms\n",
		f.Rounds, f.Logs, f.Median, f.Max, f.Most, f.Status, f.Others)
}

// failovers kills the node that leads most, round by round, and looks when each log is
// served again.
func (b *clusterBench) failovers() error {
	var lost, others []float64
	for round := range b.rounds {
		if err := placed(b.ctx, b.three); err != nil {
			return err
		}
		l, err := layoutOf(b.ctx, b.three)
		if err != nil {
			return err
		}
		victim := l.busiest()
		took, err := b.kill(&l, victim)
		if err != nil {
			return fmt.Errorf("fail-over, round %d: %w", round+1, err)
		}
		for log, ms := range took {
			if l.leaders[log] == victim {
				lost = append(lost, ms)
			} else {
				others = append(others, ms)
			}
		}
		b.say("fail-over, round %d: node %d killed; up to %.0f ms", round+1, victim, slices.Max(lost))
		if err := b.three.Start(b.ctx, victim); err != nil {
			return err
		}
	}
	f := &failover{
		Rounds: b.rounds, Logs: len(lost), Median: median(lost), Max: slices.Max(lost),
		Others: slices.Max(append(others, 0)),
		Most:   millis(failoverMost),
	}
	f.Status = b.verdict(f.Max <= f.Most)
	b.report.Failover = f
	return nil
}

// kill kills a node and answers for each log that has a path how many milliseconds later
// the first request was granted that was sent after the node's death, through a node
// that lives.
func (b *clusterBench) kill(l *layout, victim int) (map[int]float64, error) {
	var logs, paths []int
	for log := range l.leaders {
		if path := l.pathIn(log); path >= 0 {
			logs, paths = append(logs, log), append(paths, path)
		}
	}
	ctx, cancel := context.WithTimeout(b.ctx, failoverWithin)
	defer cancel()
	w, err := load.StartWatch(b.three.Node((victim+1)%b.three.Nodes()).Addr, paths)
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	if _, err := w.Next(ctx); err != nil { // all are served before
		return nil, err
	}
	began := time.Now()
	b.three.Kill(victim)
	granted, err := w.Next(ctx)
	if err != nil {
		for i := range b.three.Nodes() {
			if i != victim {
				b.say("the end of node %d's log:\n%s", i, b.three.Node(i).Log())
			}
		}
		return nil, err
	}
	took := make(map[int]float64, len(logs))
	for i, log := range logs {
		took[log] = millis(granted[i].Sub(began))
	}
	return took, nil
}

// idleNodes is what nodes without clients use, each.
type idleNodes struct {
	Seconds float64   `json:"seconds"`
	One     []float64 `json:"one_node_percent"` // of a core
	Three   []float64 `json:"three_nodes_percent"`
	Most    float64   `json:"budget_percent"`
	Status  string    `json:"status"`
}

func (i *idleNodes) text() string {
	return fmt.Sprintf("idle, 256 groups in 16 logs, %.0f s: three nodes %.2f %% of a core each (budget %.0f %%: "+
		"%s), one node %.2f %%\n",
		i.Seconds, i.Three, i.Most, i.Status, i.One)
}

// idle watches both clusters while nobody asks for anything.
func (b *clusterBench) idle() error {
	for _, c := range []*server.Cluster{b.one, b.three} {
		if err := placed(b.ctx, c); err != nil {
			return err
		}
	}
	if err := b.rest(); err != nil {
		return err
	}
	b.say("idle for %v", b.watch)
	before, err := b.processorTimes()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := sleep(b.ctx, b.watch); err != nil {
		return err
	}
	after, err := b.processorTimes()
	if err != nil {
		return err
	}
	over := time.Since(began)
	shares := make([]float64, len(after))
	for i := range after {
		shares[i] = 100 * (after[i] - before[i]).Seconds() / over.Seconds()
	}
	i := &idleNodes{Seconds: over.Seconds(), One: shares[:b.one.Nodes()], Three: shares[b.one.Nodes():], Most: idleMost}
	i.Status = b.verdict(slices.Max(i.Three) <= i.Most)
	b.report.Idle = i
	return nil
}

// verdict is what is said of a budget: nothing in a short run.
func (b *clusterBench) verdict(met bool) string {
	switch {
	case b.report.Short:
		return statusFigure
	case met:
		return statusOK
	}
	return statusShort
}

// processorTimes lists what the nodes have used so far, the single one first.
func (b *clusterBench) processorTimes() (all []time.Duration, err error) {
	for _, pid := range b.pids() {
		t, err := processorTime(pid)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}
