package groups

import (
	"errors"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/pathlockd/pathlockd/groups/gossip"
)

// A leader whose process has died is not waited for. Raft would hear nothing from it for
// an election timeout, once to twice raft_election_timeout_min_ms, before anybody stands.
// But its connections end at once, and nobody listens at its port any more: then the log's
// other voters stand for election one after the other, the one first that belongs first,
// and those that are short of disk space last.
//
// What is not certain is left to raft: a host that is gone or cut off refuses nothing, it
// is only silent. And a mistake costs an election: votes are counted by raft. Waits of its calls end only if its
// connections to here are gone as well (processes.go).

const (
	// failedWithin is how long a dead process's host may take to say so.
	failedWithin = 250 * time.Millisecond
	// failedLooks is how often it is asked, fallenPause how long after the first time, twice as long
	// after each other one (1.3 s in all): a process that starts anew may be caught between two runs, and
	// one that ends before its port is closed.
	failedLooks = 7
	failedPause = 20 * time.Millisecond
	// standApart is how long each voter waits for those before it to be elected.
	standApart = 150 * time.Millisecond
	// standTimes is how often each stands, each time after a longer pause, before it is left to raft's own
	// timeouts: two that stand at once on a busy host elect nobody.
	standTimes = 8
)

// failedLeader is told that the connection to a node has ended. If its process has died, the
// logs that it led are led by others soon.
func (n *Node) failedLeader(host string) {
	led := n.ledBy(host)
	s, died := n.looksFor(host)
	if !died {
		return
	}
	for _, shard := range n.ledBy(host) { // also what was heard meanwhile: a leadership may have gone there last
		if !slices.Contains(led, shard) {
			led = append(led, shard)
		}
	}
	if len(led) == 0 {
		return
	}
	n.log.Warn("a node's process has died, standing in for what it led", "node", s.NodeID, "logs", len(led))
	for _, shard := range led {
		n.running.Go(func() { n.stand(shard, host, s.NodeID) })
	}
}

// looksFor says that a node's process has died. If it asks nothing here either its calls are over: else it lives, and
// what is in front of its address does not. A connection on which it asked may be the last to be seen to end.
func (n *Node) looksFor(host string) (s gossip.Sighting, died bool) {
	s, known := n.cluster.sighting(host)
	if !known || !n.died(s.LinkAddr) {
		return s, false
	}
	n.cluster.mu.Lock()
	asks := reached(host, n.cluster.accepted)
	n.cluster.mu.Unlock()
	if !asks {
		n.processOver(host, s.Incarnation)
	}
	return s, true
}

// ledBy lists the logs with a voter here that a node leads, or nobody that is known.
func (n *Node) ledBy(host string) (led []uint64) {
	for _, m := range n.hosted() {
		if leader, _ := n.leaderOf(m.Shard); (leader == host || leader == "") && m.Voting.Load() {
			led = append(led, m.Shard)
		}
	}
	return led
}

// died says that the process that listened at an address is gone: it refuses twice in a
// row. One that is about to be gone may still be connected to at first.
func (n *Node) died(addr string) bool {
	refused, pause := 0, failedPause
	for range failedLooks {
		if refuses(addr) {
			if refused++; refused == 2 {
				return true
			}
		} else {
			refused = 0
		}
		select {
		case <-n.stop:
			return false
		case <-time.After(pause):
		}
		if refused == 0 {
			pause *= 2
		}
	}
	return false
}

// refuses says that nobody listens at an address, though its host is there.
func refuses(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, failedWithin)
	if err == nil {
		_ = c.Close()
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// stand has this node's replica stand for election in its turn, and again when the others have had theirs, until the
// log has another leader, or the same one anew: it was started again. Who lacks entries is not elected.
func (n *Node) stand(shard uint64, host, dead string) {
	_, led := n.leaderOf(shard)
	n.plans.mu.Lock()
	order := slices.DeleteFunc(slices.Clone(n.plans.layout[shard]), func(node string) bool { return node == dead })
	n.plans.mu.Unlock()
	order = n.roomyFirst(order)
	turn := slices.Index(order, n.id.NodeID)
	if turn < 0 {
		turn = len(order)
	}
	pause := time.Duration(turn) * standApart
	for at := range time.Duration(standTimes) {
		select {
		case <-n.stop:
			return
		case <-time.After(pause):
		}
		m := n.logs[shard].local.Load()
		if leader, term := n.leaderOf(shard); m == nil || leader != "" && (leader != host || term > led) {
			return
		}
		n.raft.Campaign(shard, m.Replica)
		pause = (at + 1) * time.Duration(len(order)+1) * standApart
	}
}
