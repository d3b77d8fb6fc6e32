package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/pathlockd/pathlockd/bench/load"
	"github.com/pathlockd/pathlockd/internal/testkit/server"
)

// Where clients of a cluster connect.
const (
	oneNode   = "one node"
	toLeader  = "three, leader"    // to the node that leads what they ask for
	forwarded = "three, forwarded" // to one that leads nothing of it
	threeAll  = "three, all"       // to each of the three
)

// clusterRow is one workload at one place.
type clusterRow struct {
	Workload  string  `json:"workload"`
	Where     string  `json:"where"`
	PerSecond float64 `json:"per_second"`
	OfOne     float64 `json:"of_one_node"` // rate against one node's
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	P999      float64 `json:"p999_ms"`
	Max       float64 `json:"max_ms"`
}

func (r *clusterRow) text() string {
	return fmt.Sprintf("%-14s %-17s %9.0f %8.2f %9.3f %9.3f %9.3f\n", r.Workload, r.Where, r.PerSecond, r.OfOne, r.P50,
		r.P99, r.P999)
}

const clusterRowHead = "workload       where                  /s   of one    p50 ms    p99 ms  p99.9 ms\n"

// detour is what a forwarded request takes more than a direct one, of the same workload.
type detour struct {
	Workload string  `json:"workload"`
	P50Extra float64 `json:"p50_more_ms"` // of a pair: two requests
	P99Extra float64 `json:"p99_more_ms"`
	P50Ratio float64 `json:"p50_ratio"`
	Rate     float64 `json:"rate_ratio"`
}

func (d *detour) text() string {
	return fmt.Sprintf("%-14s forwarded against direct: p50 %+.3f ms (x %.2f), p99 %+.3f ms, rate x %.2f\n", d.Workload,
		d.P50Extra, d.P50Ratio, d.P99Extra, d.Rate)
}

// place is where a workload runs.
type place struct {
	name string
	run  func(turn int) (load.Result, error)
	all  []load.Result
}

// shape is how many connections there are, and requests in flight on each.
type shape struct{ conns, inFlight int }

func (s shape) String() string { return fmt.Sprintf("pairs %dx%d", s.conns, s.inFlight) }

// pairs measures the workload of distinct paths at each place.
func (b *clusterBench) pairs(s shape) error {
	at := func(c *server.Cluster, away int) func(int) (load.Result, error) {
		return func(int) (load.Result, error) {
			return b.whileLeadersStay(c, func(l *layout) (load.Result, error) {
				return load.Pairs{
					Targets: l.targets(c.Addrs(), away), Conns: s.conns, InFlight: s.inFlight, Pool: b.pool,
					Warm: b.warm, Measure: b.measure,
				}.Run(b.ctx)
			})
		}
	}
	places := []*place{
		{name: oneNode, run: at(b.one, 0)},
		{name: toLeader, run: at(b.three, 0)},
		{name: forwarded, run: at(b.three, 1)},
	}
	rows, err := b.turnsOf(s.String(), places)
	if err != nil {
		return err
	}
	direct, away := rows[1], rows[2]
	b.report.Detours = append(b.report.Detours, detour{
		Workload: s.String(), P50Extra: away.P50 - direct.P50, P99Extra: away.P99 - direct.P99,
		P50Ratio: away.P50 / direct.P50, Rate: away.PerSecond / direct.PerSecond,
	})
	return nil
}

// hotMutex hands one mutex from client to client; those of three nodes wait on
// different ones.
func (b *clusterBench) hotMutex() error {
	at := func(c *server.Cluster) func(int) (load.Result, error) {
		return func(int) (load.Result, error) {
			return b.whileLeadersStay(c, func(*layout) (load.Result, error) {
				b.mutexes++
				return load.Handover{Addrs: c.Addrs(), Path: mutexPaths + b.mutexes, Conns: hotClients, Waiters: 1,
					Warm: b.warm, Measure: b.measure}.Run(b.ctx)
			})
		}
	}
	_, err := b.turnsOf("hot mutex", []*place{{name: oneNode, run: at(b.one)}, {name: threeAll, run: at(b.three)}})
	return err
}

// turnsOf runs a workload at each place, in turns, and reports each place's median run.
// The first place is what the others are held against.
func (b *clusterBench) turnsOf(workload string, places []*place) ([]clusterRow, error) {
	for turn := range b.turns {
		for _, p := range places {
			b.say("%s, %s", workload, p.name)
			res, err := p.run(turn)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", workload, p.name, err)
			}
			p.all = append(p.all, res)
			if err := b.rest(); err != nil {
				return nil, err
			}
		}
	}
	one := middle(places[0].all).PerSecond()
	var rows []clusterRow
	for _, p := range places {
		res := middle(p.all)
		rows = append(rows, clusterRow{
			Workload: workload, Where: p.name, PerSecond: res.PerSecond(), OfOne: res.PerSecond() / one,
			P50: millis(res.P50), P99: millis(res.P99), P999: millis(res.P999), Max: millis(res.Max),
		})
	}
	b.report.Rows = append(b.report.Rows, rows...)
	return rows, nil
}

// leadersStayTries is how often a workload is run again because leaders moved meanwhile.
const leadersStayTries = 5

var errMoved = errors.New("leaders move all the time")

// whileLeadersStay runs a workload while no leader moves: what one node leads when it begins, it
// leads when it ends.
func (b *clusterBench) whileLeadersStay(c *server.Cluster,
	run func(*layout) (load.Result, error)) (load.Result, error) {
	for range leadersStayTries {
		if err := placed(b.ctx, c); err != nil {
			return load.Result{}, err
		}
		before, err := layoutOf(b.ctx, c)
		if err != nil {
			return load.Result{}, err
		}
		res, failed := run(&before)
		after, err := layoutOf(b.ctx, c)
		switch {
		case err == nil && failed == nil && slices.Equal(before.leaders, after.leaders):
			return res, nil
		case err == nil && slices.Equal(before.leaders, after.leaders):
			return res, failed
		case b.ctx.Err() != nil:
			return res, b.ctx.Err()
		}
		b.say("again: leaders moved (%v)", errors.Join(failed, err))
	}
	return load.Result{}, errMoved
}

// rest waits until no node has work left of the last workload.
func (b *clusterBench) rest() error {
	errs := make([]error, b.one.Nodes()+b.three.Nodes())
	var all sync.WaitGroup
	for i, pid := range b.pids() {
		all.Go(func() { errs[i] = b.settle(pid) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// pids lists the processes of all nodes, the single one first.
func (b *clusterBench) pids() (all []int) {
	for _, c := range []*server.Cluster{b.one, b.three} {
		for i := range c.Nodes() {
			all = append(all, c.Node(i).PID())
		}
	}
	return all
}
