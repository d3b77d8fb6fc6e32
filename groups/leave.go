package groups

import (
	"context"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/groups/gossip"
	"github.com/pathlockd/pathlockd/groups/replica"
)

const (
	// handAwayWithin is how long a node that stops tries to give its leaderships away.
	// What is left then is elected anew, after an election timeout.
	handAwayWithin = 5 * time.Second
	// leaveWithin is how long it takes to tell the others that it goes.
	leaveWithin = 2 * time.Second
)

// handAway gives the leaderships of a node that is to stop to other voters, while it
// still serves.
func (n *Node) handAway(within time.Duration) {
	if n.cluster == nil || within <= 0 {
		return
	}
	_ = n.cluster.gossip.Update(func(r *gossip.Record) { r.State = gossip.Draining })
	deadline := time.Now().Add(min(within, handAwayWithin))
	var all sync.WaitGroup
	for _, m := range n.ledLogs() {
		all.Go(func() {
			for tried := 0; n.logs[m.Shard].leads() && time.Now().Before(deadline); tried++ {
				successor, ok := n.successor(m, tried)
				if !ok {
					return
				}
				if err := n.handOver(m.Shard, successor); err != nil {
					n.log.Debug("a leadership was not taken", "log", m.Shard, "error", err)
					time.Sleep(handPoll)
				}
			}
		})
	}
	all.Wait()
}

// successor is the voter that a log is offered to: the best caught up of those that are
// seen, before those that are short of disk space, and another one after each few times
// that it was not taken.
func (n *Node) successor(m *replica.Machine, tried int) (replica uint64, ok bool) {
	n.plans.mu.Lock()
	defer n.plans.mu.Unlock()
	var successors, short []uint64
	applied := uint64(0)
	for _, r := range n.plans.by[m.Shard].log.Replicas {
		s, seen := n.cluster.sighting(r.Disk)
		if !r.Voting || r.ID == m.Replica || !seen || !s.Alive || s.State != gossip.Member {
			continue
		}
		if s.Shortage.Is() {
			short = append(short, r.ID)
		} else if r.Applied >= applied {
			successors, applied = append([]uint64{r.ID}, successors...), r.Applied
		} else {
			successors = append(successors, r.ID)
		}
	}
	if successors = append(successors, short...); len(successors) == 0 {
		return 0, false
	}
	return successors[tried/3%len(successors)], true
}

// goodbye tells the others that this node goes on purpose.
func (n *Node) goodbye() {
	if n.cluster == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveWithin)
	defer cancel()
	if err := n.cluster.gossip.Leave(ctx); err != nil {
		n.log.Debug("nobody may have heard that this node leaves", "error", err)
	}
}
