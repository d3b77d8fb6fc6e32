package sim

import (
	"fmt"
	"math"

	"github.com/pathlockd/pathlockd/groups/place"
)

// Traffic is what a node of a cluster at rest says to the others, by formula, from where
// the logs are. Bytes are payload: TLS and TCP come on top of each write.
type Traffic struct {
	Nodes, Logs, Factor int

	// Conns are the ends of connections of a node for what nodes forward and tell: one
	// that it dialed and one that was dialed, to and from each other node.
	Conns int
	// RaftPeers are the nodes that a node shares a log with, at most: raft has a
	// connection to each, and one from each.
	RaftPeers int
	// Heartbeats are raft's that a node sends in a second, answers included: the mean and
	// the most.
	Heartbeats, HeartbeatsMost float64
	// Alive are the frames a second that say that a connection is, on all that are silent.
	Alive float64
	// Gossip is what a node sends, in bytes a second: probes and exchanges of everything.
	Gossip float64
	// Notices are sent when a log gets a leader, by that node.
	Notices int
	// Audits are questions a second whether replicas are still members.
	Audits float64
	// Asks are questions a second how far replicas are, when no log is settled: the most.
	Asks float64
	// Fed is how many logs a node is told the events of by others, and Feeds how many
	// nodes a log's leader tells: every event goes to all of them.
	Fed, Feeds int
	// EventBytes is the memory that a node keeps events in once every log has had many.
	EventBytes float64
	// Locks are held in a node's memory, and LockBytes take so much of it.
	Locks, LockBytes float64
}

// What a message takes. The first two are fitted to what bench scale --measure says of 5
// and of 30 nodes.
const (
	probeBytes    = 160.0 // of probes and answers, encrypted, in a second
	exchangeBytes = 100.0 // of a member in an exchange of everything
	pushPullEvery = 30.0  // seconds, up to pushPullNodes members
	pushPullNodes = 32.0
	// HeartbeatBytes is a heartbeat of raft with the envelope of its batch.
	HeartbeatBytes = 51 + 36
	// AliveBytes is an empty frame in a record of TLS.
	AliveBytes  = 4 + 22
	auditEvery  = 5.0
	eventsKept  = 8192.0 // event_buffer, up to twice that
	eventMemory = 150.0  // of one that is kept: 88 B and its three texts
	// HeapOfLock is what a held lock takes of a whole server (bench budgets,
	// heap-per-lock).
	HeapOfLock = 270.0
)

// NewTraffic works it out for a cluster that is as Place lays it out.
func NewTraffic(c Config) Traffic {
	c = c.defaults()
	var names []string
	for i := range c.Nodes {
		names = append(names, fmt.Sprintf("pathlockd-%d", i))
	}
	w := &World{c: c}
	layout := place.Place(w.numbers(), names, c.Factor)
	t := Traffic{Nodes: c.Nodes, Logs: c.Logs, Factor: c.Factor, Conns: 2 * (c.Nodes - 1), Notices: c.Nodes - 1}
	voters := place.Voters(c.Nodes, c.Factor)
	beats, hosted, peers, leaders, leads := map[string]float64{}, map[string]int{}, map[string]map[string]bool{},
		map[string]map[string]bool{}, map[string]int{}
	for _, id := range w.numbers() {
		seats := layout[id]
		leads[seats[0]]++
		for i, n := range seats {
			hosted[n]++
			if peers[n] == nil {
				peers[n], leaders[n] = map[string]bool{}, map[string]bool{}
			}
			for _, o := range seats {
				peers[n][o] = true
			}
			leaders[n][seats[0]] = true
			if i == 0 {
				beats[n] += float64(voters-1) / heartbeat.Seconds()
			} else {
				beats[n] += 1 / heartbeat.Seconds()
			}
		}
	}
	most, audits := 0, 0
	for _, n := range names {
		t.Heartbeats += beats[n] / float64(c.Nodes)
		t.HeartbeatsMost = max(t.HeartbeatsMost, beats[n])
		t.RaftPeers = max(t.RaftPeers, len(peers[n])-1)
		audits = max(audits, len(leaders[n]))
		most = max(most, hosted[n])
		t.Asks = max(t.Asks, float64(min(leads[n]*(voters-1), c.Nodes-1))/unsettled.Seconds())
	}
	t.Audits = float64(audits) / auditEvery
	t.Alive = float64(t.Conns)
	every := pushPullEvery
	if n := float64(c.Nodes); n > pushPullNodes {
		every *= math.Ceil(math.Log2(n)-math.Log2(pushPullNodes)) + 1
	}
	t.Gossip = probeBytes + 2*exchangeBytes*float64(c.Nodes)/every
	t.Fed = c.Logs + 1 - most
	t.Feeds = c.Nodes - voters
	t.EventBytes = float64(c.Logs+1) * eventsKept * eventMemory
	t.Locks = float64(most) * float64(c.Locks) / float64(c.Logs)
	t.LockBytes = t.Locks * HeapOfLock
	return t
}

// String is the traffic as a line of Go's benchmarks.
func (t *Traffic) String() string {
	return fmt.Sprintf("BenchmarkTraffic/nodes=%d/logs=%d/factor=%d\t%d conns\t%d raft-peers\t%.4g "+
		"heartbeats/s\t%.4g heartbeats-most/s\t%.4g heartbeat-B/s\t%.4g alive/s\t%.4g alive-B/s\t%.4g "+
		"gossip-B/s\t%d notices/election\t%.3g audits/s\t%.4g asks/s\t%d fed-logs\t%d fed-nodes/log\t%.4g "+
		"events-MiB\t%.4g locks\t%.4g lock-MiB",
		t.Nodes, t.Logs, t.Factor, t.Conns, t.RaftPeers, t.Heartbeats, t.HeartbeatsMost, t.Heartbeats*HeartbeatBytes,
		t.Alive, t.Alive*AliveBytes,
		t.Gossip, t.Notices, t.Audits, t.Asks, t.Fed, t.Feeds, t.EventBytes/(1<<20), t.Locks, t.LockBytes/(1<<20))
}
