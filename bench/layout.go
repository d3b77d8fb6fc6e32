package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/bench/load"
	pathlockd "github.com/pathlockd/pathlockd/clients/go"
	"github.com/pathlockd/pathlockd/internal/testkit/server"
	"github.com/pathlockd/pathlockd/wire"
)

const (
	// placedWithin is how long a cluster may take until all replicas and leaders are
	// where they belong.
	placedWithin = 3 * time.Minute
	// lookEvery is how often is looked whether they are.
	lookEvery = 250 * time.Millisecond
	// answeredWithin is how long one look may take.
	answeredWithin = 10 * time.Second
)

// layout is which node leads what.
type layout struct {
	leaders []int // by log
	logs    []int // by namespace of the load: its log
}

// looked asks one node.
func looked[T any](ctx context.Context, p *server.Process, what func(context.Context, *pathlockd.Client) (T,
	error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, answeredWithin)
	defer cancel()
	var none T
	c, err := pathlockd.Dial(ctx, p.Addr, pathlockd.WithOneConnection())
	if err != nil {
		return none, err
	}
	defer c.Close()
	return what(ctx, c)
}

var errNoLeader = errors.New("not every log has a leader")

// layoutOf asks every node what it leads: nobody knows better.
func layoutOf(ctx context.Context, c *server.Cluster) (layout, error) {
	var l layout
	for i := range c.Nodes() {
		t, err := looked(ctx, c.Node(i), func(ctx context.Context, c *pathlockd.Client) (*wire.Topology,
			error) {
			return c.Topology(ctx)
		})
		if err != nil {
			return l, fmt.Errorf("ask node %d for the topology: %w", i, err)
		}
		if l.leaders == nil {
			l.leaders = slices.Repeat([]int{-1}, len(t.Leaders))
			routes := wire.NewRoutes(0, int(t.Segments), t.Roots)
			for ns := range load.Namespaces {
				group := wire.GroupOf(routes.Resolve(load.Path(ns)), int(t.GroupLogs))
				l.logs = append(l.logs, int(t.LogOf[group]))
			}
		}
		for log, leader := range t.Leaders {
			if leader == t.Self {
				l.leaders[log] = i
			}
		}
	}
	if slices.Contains(l.leaders, -1) {
		return l, errNoLeader
	}
	return l, nil
}

// namespaces lists those of the load that a node leads.
func (l *layout) namespaces(node int) (led []int) {
	for ns, log := range l.logs {
		if l.leaders[log] == node {
			led = append(led, ns)
		}
	}
	return led
}

// targets are the nodes, each with namespaces that the node itself leads (away 0) or
// the one so many further on does.
func (l *layout) targets(addrs []string, away int) (all []load.Target) {
	for i, addr := range addrs {
		if led := l.namespaces((i + away) % len(addrs)); len(led) > 0 {
			all = append(all, load.Target{Addr: addr, Namespaces: led})
		}
	}
	return all
}

// busiest is the node that leads most logs.
func (l *layout) busiest() int {
	leads := make(map[int]int)
	best := 0
	for _, node := range l.leaders {
		if leads[node]++; leads[node] > leads[best] {
			best = node
		}
	}
	return best
}

// Numbers of paths from which on only a fail-over, or a hot mutex, asks: beyond every
// pool, for a lock outlives the run that left it.
const (
	failoverPaths = load.Namespaces * 50_000
	mutexPaths    = 2 * failoverPaths
)

// pathIn is the number of a path in a log that only a fail-over asks for, -1 when no
// namespace lives there.
func (l *layout) pathIn(log int) int {
	ns := slices.Index(l.logs, log)
	if ns < 0 {
		return -1
	}
	return failoverPaths + ns
}

// placed waits until every replica and every leader of a cluster is where it belongs.
func placed(ctx context.Context, c *server.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, placedWithin)
	defer cancel()
	for {
		status, err := looked(ctx, c.Node(0),
			func(ctx context.Context, c *pathlockd.Client) (*wire.ClusterStatus, error) {
				return c.ClusterStatus(ctx)
			})
		missing := "its status: " + fmt.Sprint(err)
		if err == nil {
			if missing = misplaced(status, c.Nodes()); missing == "" {
				return nil
			}
		}
		if err := sleep(ctx, lookEvery); err != nil {
			return fmt.Errorf("a cluster of %d nodes is not in place within %v: %s", c.Nodes(), placedWithin, missing)
		}
	}
}

// misplaced says what of a cluster is not where it belongs, "" for nothing.
func misplaced(s *wire.ClusterStatus, nodes int) string {
	if len(s.Nodes) != nodes || !s.Healthy {
		return fmt.Sprintf("%d nodes of %d; %s", len(s.Nodes), nodes, strings.Join(s.Problems, "; "))
	}
	for _, l := range s.Logs {
		if len(l.Target) == 0 || l.Leader != l.Target[0] || len(l.Voters) != min(nodes, s.Settings.ReplicationFactor) {
			return fmt.Sprintf("log %s: led by %q, of %d voters, and should be by the first of %q: %s", l.Name,
				l.Leader, len(l.Voters), l.Target, l.Step)
		}
	}
	return ""
}
