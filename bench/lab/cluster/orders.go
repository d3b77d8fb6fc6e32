package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/bench/session"
	"github.com/pathlockd/pathlockd/groups/place"
	"github.com/pathlockd/pathlockd/wire"
)

// What operators ask of a cluster.

// orderWithin is how long they wait for an answer: longer than a node tries.
const orderWithin = 2 * requestTimeout

// Status is the cluster as a node sees it.
func Status(ctx context.Context, c Cluster, node int) (*wire.ClusterStatus, error) {
	res, err := Ask(ctx, c, node, orderWithin, &wire.Request{Op: wire.OpClusterStatus})
	if err != nil {
		return nil, err
	}
	return wire.DecodeClusterStatus(res.Message)
}

// Healthy waits until the cluster says so of itself.
func Healthy(ctx context.Context, c Cluster, node int) error {
	err := await(ctx, c, node, func(s *wire.ClusterStatus) error {
		if !s.Healthy {
			return fmt.Errorf("it says %q", s.Problems)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the cluster is not healthy: %w", err)
	}
	return nil
}

// Transfer gives the leadership of a log to a node.
func Transfer(ctx context.Context, c Cluster, log uint64, to int) error {
	_, err := Ask(ctx, c, to, orderWithin, &wire.Request{Op: wire.OpClusterTransfer, Target: log, Node: c.NodeID(to)})
	return err
}

// Drain wants a node emptied so far, DrainNone for not at all; another node is asked.
func Drain(ctx context.Context, c Cluster, node int, d wire.Drain) error {
	req := &wire.Request{Op: wire.OpNodeDrain, Node: c.NodeID(node), Drain: d}
	if d == wire.DrainNone {
		req = &wire.Request{Op: wire.OpNodeResume, Node: c.NodeID(node)}
	}
	_, err := Ask(ctx, c, (node+1)%c.Nodes(), orderWithin, req)
	return err
}

// Remove gives a node up for good; another one is asked.
func Remove(ctx context.Context, c Cluster, node int) error {
	_, err := Ask(ctx, c, (node+1)%c.Nodes(), orderWithin, &wire.Request{Op: wire.OpNodeRemove, Node: c.NodeID(node)})
	return err
}

// Emptied waits until a node that is drained holds no replica; another one is asked.
func Emptied(ctx context.Context, c Cluster, node int) error {
	return await(ctx, c, (node+1)%c.Nodes(), func(s *wire.ClusterStatus) error {
		for i := range s.Logs {
			if l := &s.Logs[i]; l.Leader == "" || len(l.Voters) == 0 {
				return fmt.Errorf("log %d: nobody says who has it", l.Log)
			}
		}
		for i := range s.Nodes {
			if n := &s.Nodes[i]; n.NodeID == c.NodeID(node) && n.Replicas > 0 {
				return fmt.Errorf("%s still holds %d replicas", n.NodeID, n.Replicas)
			}
		}
		return nil
	})
}

// Placed waits until every log has its voters where they belong, all of them caught up and
// as many as there should be, and nothing anywhere else.
func Placed(ctx context.Context, c Cluster, node int) error {
	ids := make(map[string]bool)
	for i := range c.Nodes() {
		ids[c.NodeID(i)] = true
	}
	return await(ctx, c, node, func(s *wire.ClusterStatus) error {
		if !s.Healthy {
			return fmt.Errorf("it says %q", s.Problems)
		}
		want := place.Voters(len(ids), s.Settings.ReplicationFactor)
		for i := range s.Logs {
			l := &s.Logs[i]
			if len(l.Voters) != want || len(l.Learners) > 0 || len(l.Target) != want {
				return fmt.Errorf("log %d has %d voters and %d learners, and %d targets; %d voters belong there", l.Log,
					len(l.Voters), len(l.Learners), len(l.Target), want)
			}
			for _, v := range l.Voters {
				if !ids[v.Node] || !slices.Contains(l.Target, v.Node) {
					return fmt.Errorf("log %d has a voter on %s, which is no target (%v) or no node", l.Log,
						v.Node, l.Target)
				}
			}
		}
		return nil
	})
}

// await asks a node for the cluster's status until it is as it should be.
func await(ctx context.Context, c Cluster, node int, good func(*wire.ClusterStatus) error) error {
	again := time.NewTicker(5 * askEvery)
	defer again.Stop()
	var last error // of an answer that came
	for {
		s, err := Status(ctx, c, node)
		if err == nil {
			if err = good(s); err == nil {
				return nil
			}
			last = err
		}
		select {
		case <-ctx.Done():
			return errors.Join(last, err, ctx.Err())
		case <-again.C:
		}
	}
}

// Ask asks one thing of a node, once and in a session of its own, within a time that counts
// from the dialling on. A node's refusal is the error, a *wire.Error; the result is nil when
// there was no answer.
func Ask(ctx context.Context, c Cluster, node int, within time.Duration, req *wire.Request) (*wire.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	s := session.New()
	conn, err := c.Dial(ctx, node, s)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	res, err := conn.Ask(ctx, s.Next(), req, nil)
	if err == nil && res.Err() != nil {
		err = res.Err()
	}
	return res, err
}
