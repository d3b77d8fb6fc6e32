package groups

import (
	"context"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/groups/gossip"
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
			for tried := 0; n.logs[m.shard].leads() && time.Now().Before(deadline); tried++ {
				heir, ok := n.heir(m, tried)
				if !ok {
					return
				}
				if err := n.handOver(m.shard, heir); err != nil {
					n.log.Debug("a leadership was not taken", "log", m.shard, "error", err)
					time.Sleep(handPoll)
				}
			}
		})
	}
	all.Wait()
}

// heir is the voter that a log is offered to: the best caught up of those that are
// seen, before those that are short of disk space, and another one after each few times
// that it was not taken.
func (n *Node) heir(m *machine, tried int) (replica uint64, ok bool) {
	n.plans.mu.Lock()
	defer n.plans.mu.Unlock()
	var heirs, short []uint64
	applied := uint64(0)
	for _, r := range n.plans.by[m.shard].log.Replicas {
		s, seen := n.cluster.sighting(r.Disk)
		if !r.Voting || r.ID == m.replica || !seen || !s.Alive || s.State != gossip.Member {
			continue
		}
		if s.Shortage.Is() {
			short = append(short, r.ID)
		} else if r.Applied >= applied {
			heirs, applied = append([]uint64{r.ID}, heirs...), r.Applied
		} else {
			heirs = append(heirs, r.ID)
		}
	}
	if heirs = append(heirs, short...); len(heirs) == 0 {
		return 0, false
	}
	return heirs[tried/3%len(heirs)], true
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
