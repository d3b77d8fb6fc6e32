package gauge

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/groups/gossip"
)

const (
	token   = gossip.Token("a token that is only used in measurements")
	cluster = "11111111-1111-4111-8111-111111111111"
	// joinWithin is how long all nodes may take to see each other, and missWithin how
	// long they may take to miss one.
	joinWithin = time.Minute
	missWithin = 2 * time.Minute
	lookEvery  = 20 * time.Millisecond
)

// quiet drops what nodes log.
var quiet = slog.New(slog.DiscardHandler)

// hostID is the raft host id of a node.
func hostID(n int) string { return fmt.Sprintf("33333333-3333-4333-8333-%012d", n) }

// Gossip is what was measured of a cluster's gossip.
type Gossip struct {
	Nodes          int
	Joined         time.Duration // from the start of the first until all saw all
	Packets        float64       // sent by a node in a second
	Bytes          float64       // sent by a node in a second
	Missed, Spread time.Duration // from a death until the first saw it, and from then until all did
}

// MeasureGossip starts nodes with the timing of real networks, lets them calm down, counts
// what they send while nothing happens, and then ends one without a word.
func MeasureGossip(ctx context.Context, nodes int, calm, watch time.Duration) (g Gossip, err error) {
	g.Nodes = nodes
	var all []*gossip.Members
	defer func() {
		for _, m := range all {
			_ = m.Close() // what is measured is over
		}
	}()
	began := time.Now()
	for i := range nodes {
		c := gossip.Config{
			Self: gossip.Record{
				NodeID: fmt.Sprintf("pathlockd-%d", i), ClusterID: cluster, HostID: hostID(i), Incarnation: 1,
				RaftAddr: fmt.Sprintf("10.0.0.%d:50052", i), LinkAddr: fmt.Sprintf("10.0.0.%d:50053", i),
				NativeAddr: fmt.Sprintf("10.0.0.%d:50050", i),
				FormatMin:  1, FormatMax: 1, State: gossip.Member,
			},
			Token: token, Bind: "127.0.0.1:0", Log: quiet,
		}
		if i > 0 {
			c.Seeds = []string{all[0].GossipAddr()}
		}
		m, err := gossip.Start(c)
		if err != nil {
			return g, err
		}
		all = append(all, m)
	}
	if err := poll(ctx, joinWithin, func() bool {
		return !slices.ContainsFunc(all, func(m *gossip.Members) bool { return alive(m) < nodes })
	}); err != nil {
		return g, fmt.Errorf("%d nodes to see each other: %w", nodes, err)
	}
	g.Joined = time.Since(began)
	if err := pause(ctx, calm); err != nil { // until all that joining gave to talk about is told
		return g, err
	}
	before := sent(all)
	began = time.Now()
	if err := pause(ctx, watch); err != nil {
		return g, err
	}
	after, took := sent(all), time.Since(began).Seconds()*float64(nodes)
	g.Packets = float64(after.PacketsOut-before.PacketsOut) / took
	g.Bytes = float64(after.BytesOut-before.BytesOut) / took
	began = time.Now()
	if err := all[nodes-1].Close(); err != nil {
		return g, err
	}
	all = all[:nodes-1]
	misses := func(m *gossip.Members) bool { return alive(m) < nodes }
	if err := poll(ctx, missWithin, func() bool { return slices.ContainsFunc(all, misses) }); err != nil {
		return g, fmt.Errorf("the others to miss one: %w", err)
	}
	g.Missed = time.Since(began)
	if err := poll(ctx, missWithin, func() bool {
		return !slices.ContainsFunc(all, func(m *gossip.Members) bool { return !misses(m) })
	}); err != nil {
		return g, fmt.Errorf("all others to miss one: %w", err)
	}
	g.Spread = time.Since(began) - g.Missed
	return g, nil
}

// alive counts the members that a node sees, itself included.
func alive(m *gossip.Members) (n int) {
	for _, s := range m.Members() {
		if s.Alive {
			n++
		}
	}
	return n
}

// sent adds up what all nodes sent.
func sent(all []*gossip.Members) (t gossip.Traffic) {
	for _, m := range all {
		own := m.Traffic()
		t.PacketsOut += own.PacketsOut
		t.BytesOut += own.BytesOut
	}
	return t
}

// poll waits until something is so.
func poll(ctx context.Context, within time.Duration, until func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for !until() {
		if err := pause(ctx, lookEvery); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-late.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
