package groups

import (
	"errors"
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/status"
	"github.com/pathlockd/pathlockd/wire"
)

// Operators look at the cluster and ask things of its nodes through operations of
// their own. Whatever is asked is checked against what this node knows (survey.go),
// written to the system log as a mark on the node (engine/mark.go), and acted on by
// the leader of each log, which plans by the marks (place.Members). Two operators who
// ask at the same time at different nodes may pass both checks: then nothing unsafe is
// done, since Plan keeps every log's majority, but a drain does not end.

// administers says that an operation is one of operators'. They are taken in any
// condition of the node: they say what is wrong, and mend it.
func administers(op wire.Op) bool {
	switch op {
	case wire.OpClusterStatus, wire.OpClusterTransfer, wire.OpNodeDrain, wire.OpNodeResume, wire.OpNodeRemove:
		return true
	}
	return false
}

// administer carries an operator's request out.
func (s *steps) administer() (res wire.Result, err *wire.Error) {
	doc := s.n.clusterStatus()
	if s.c.Op != wire.OpClusterStatus && s.n.draining.Load() {
		return res, wire.Errorf(wire.Unavailable, "the node is draining; nothing was done, ask another one")
	}
	node := strings.Clone(s.req.Node)
	switch s.c.Op {
	case wire.OpClusterStatus:
		text, bad := doc.Encode()
		if bad != nil {
			return res, wire.Errorf(wire.Internal, "%v", bad)
		}
		return wire.Result{Message: text}, nil
	case wire.OpClusterTransfer:
		return res, s.handOver(doc, s.req.Target, node)
	case wire.OpNodeDrain:
		if res.Message, err = status.MayDrain(doc, node, s.req.Drain); err == nil {
			err = s.mark(node, s.req.Drain)
		}
	case wire.OpNodeRemove:
		if res.Message, err = status.MayRemove(doc, node, s.req.Explicit); err == nil {
			err = s.mark(node, wire.DrainRemoved)
		}
	case wire.OpNodeResume:
		was := s.n.wantedOf(0)[node]
		if was == wire.DrainRemoved && s.n.cluster != nil {
			s.n.cluster.forgetEverywhere()
		}
		if _, err = status.FindNode(doc, node); err == nil || was != wire.DrainNone {
			err = s.mark(node, wire.DrainNone)
		}
	}
	if err != nil {
		res.Message = ""
	}
	return res, err
}

// clusterStatus is the cluster as this node sees it.
func (n *Node) clusterStatus() *wire.ClusterStatus {
	return n.survey().Report(n.id.ClusterID, n.id.NodeID, wire.ClusterSettings{
		GroupCount: n.id.GroupCount, LogCount: n.id.LogCount, ReplicationFactor: n.id.Replication,
		Segments: n.id.Segments, Algorithm: n.id.Algorithm,
	})
}

// mark writes to the system log what is wanted of a node.
func (s *steps) mark(node string, d wire.Drain) *wire.Error {
	return s.all([]command{{group: replica.SystemGroup, sub: 1,
		req: &wire.Request{Op: wire.OpMarkNode, Node: node, Drain: d}}})
}

// handEvery is how often a leadership is offered again: raft drops about two of three
// offers that come right after writes.
const handEvery = 250 * time.Millisecond

// handOver gives the leadership of a log to a node, and waits until it has it.
func (s *steps) handOver(doc *wire.ClusterStatus, log uint64, node string) *wire.Error {
	if err := status.MayTransfer(doc, log, node); err != nil {
		return err
	}
	for {
		if s.n.leads(log, node) {
			return nil
		}
		if err := s.n.transfer(log, node); err != nil {
			return asWire(err)
		}
		if s.n.clock.Mono()-s.since >= s.n.cfg.RequestTimeout {
			return wire.Errorf(wire.Unavailable,
				"node %s did not come to lead log %d within request_timeout_ms; it may yet", node, log)
		}
		select {
		case <-s.n.stop:
			return wire.Errorf(wire.Unavailable, "the node is shutting down; ask another one")
		case <-time.After(handEvery):
		}
	}
}

// leads says whether a log is known to be led by a node.
func (n *Node) leads(log uint64, node string) bool {
	s := n.survey()
	for i := range s.Logs {
		if s.Logs[i].ID == log {
			return s.Logs[i].Leader == node
		}
	}
	return false
}

// asWire is an error as a client is told of it.
func asWire(err error) *wire.Error {
	var known *wire.Error
	if errors.As(err, &known) {
		return known
	}
	return wire.Errorf(wire.Unavailable, "%v", err)
}
