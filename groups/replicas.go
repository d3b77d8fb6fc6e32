package groups

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/raft"
	"github.com/pathlockd/pathlockd/groups/replica"
)

// offload is how long a replica that is to stop may take.
const offload = 30 * time.Second

// hosted lists the logs that this node has a loaded replica of.
func (n *Node) hosted() []*replica.Machine {
	all := make([]*replica.Machine, 0, len(n.logs))
	for _, shard := range n.id.Logs() {
		if m := n.logs[shard].local.Load(); m != nil && m.Loaded.Load() {
			all = append(all, m)
		}
	}
	return all
}

// startReplica starts this node's replica of a log; the node's own start waits for
// those that are awaited. It answers how far the log reaches here: some of that raft may have got since it
// was started.
func (n *Node) startReplica(shard uint64, s datadir.Replica, awaited bool) (last uint64, err error) {
	l, m := n.logs[shard], replica.New(n.replicaConfig(shard, s.ID))
	m.Proposer, m.Awaited = &applier{shardLog: l}, awaited
	m.Voting.Store(!s.Joined || s.Voter)
	n.noteLost(shard, false) // what an earlier replica has lost says nothing of this one,
	n.noteLost(shard, true)  // which knows of no leader from now on until raft tells of one
	l.local.Store(m)
	if err := l.raft.Start(s, m); err != nil {
		n.noteLost(shard, false)
		l.local.Store(nil)
		return 0, err
	}
	_, last, members, err := l.raft.Bounds()
	if err != nil {
		return 0, fmt.Errorf("look at log %d: %w", shard, err)
	}
	if _, voter := members.Nodes[s.ID]; voter && s.Joined && !s.Voter {
		return n.startVoter(shard, s, m)
	}
	return last, nil
}

// replicaConfig is what a replica of a log is made with here.
func (n *Node) replicaConfig(shard, id uint64) replica.Config {
	log := n.log.With("log", shard)
	c := replica.Config{
		Shard: shard, Replica: id, Numbers: n.groupsOf(shard), Algorithm: n.cfg.Algorithm, Segments: n.cfg.Segments,
		NodeLimits: n.cfg.limits(), Folding: &n.cfg.folding, Store: n.store, Clock: n.clock, Logger: log,
		Host: replicaHost{n}, Hub: n.hub,
		Fail: func(err error) { n.cfg.lastWord(log, err) }, NoEngine: n.cfg.NoEngine,
	}
	if s := n.cfg.seams; s != nil {
		c.Observer = s.beside
	}
	return c
}

// startVoter starts a replica anew that was taken for a learner: the node ended between
// a snapshot and taking note of what it says.
func (n *Node) startVoter(shard uint64, s datadir.Replica, learner *replica.Machine) (last uint64, err error) {
	if err := n.logs[shard].raft.Stop(s.ID); err != nil {
		return 0, fmt.Errorf("stop log %d: %w", shard, err)
	}
	select {
	case <-learner.Closed:
	case <-time.After(offload):
		return 0, fmt.Errorf("log %d did not stop within %v", shard, offload)
	}
	s.Voter = true
	n.id.Replicas[shard] = s
	if err := n.id.Save(n.cfg.DataDir); err != nil {
		return 0, err
	}
	return n.startReplica(shard, s, learner.Awaited && !learner.Loaded.Load())
}

// began takes note that the node's replicas have their raft logs.
func (n *Node) began() error {
	n.idLock.Lock()
	defer n.idLock.Unlock()
	if n.id.Began {
		return nil
	}
	n.id.Began = true
	return n.id.Save(n.cfg.DataDir)
}

// lookForVotes finds out which replicas that joined have become voters.
func (n *Node) lookForVotes() {
	learns := false
	for _, m := range n.hosted() {
		learns = learns || !m.Voting.Load()
	}
	if !learns {
		return
	}
	for _, r := range n.raft.Replicas() {
		m := n.logs[r.Shard].local.Load()
		if m == nil || m.Replica != r.Replica || r.Pending || r.Learner {
			continue
		}
		if _, votes := r.Voters[r.Replica]; votes {
			m.Voting.Store(true)
		}
	}
}

// noteVoter takes note that a snapshot was taken that knows this node's replica as a
// voter.
func (n *Node) noteVoter(shard uint64) {
	n.idLock.Lock()
	defer n.idLock.Unlock()
	s, ok := n.id.Replicas[shard]
	if !ok || !s.Joined || s.Voter {
		return
	}
	_, _, members, err := n.logs[shard].raft.Bounds()
	if err != nil {
		return
	}
	if _, voter := members.Nodes[s.ID]; !voter {
		return
	}
	s.Voter = true
	n.id.Replicas[shard] = s
	if err := n.id.Save(n.cfg.DataDir); err != nil {
		n.log.Warn("cannot write identity.json; the next start takes a little longer", "error", err)
	}
}

// addReplica starts a new replica of a log, which the log's leader has added. It does
// nothing if the node has one, or had this one before: what was wiped never returns
// under its id. One that could not be started when it was added is tried again.
func (n *Node) addReplica(shard, replica uint64) error {
	n.idLock.Lock()
	defer n.idLock.Unlock()
	s, ok := n.id.Replicas[shard]
	switch {
	case n.draining.Load():
		return nil
	case ok && s.ID == replica && n.logs[shard].local.Load() == nil:
		return n.joins(shard, s)
	case ok || replica <= n.id.Dropped[shard]:
		return nil
	}
	if err := n.store.Clear(shard, n.groupsOf(shard)); err != nil {
		return fmt.Errorf("make room for log %d: %w", shard, err)
	}
	s = datadir.Replica{ID: replica, Joined: true}
	n.id.Replicas[shard] = s
	if err := n.id.Save(n.cfg.DataDir); err != nil {
		delete(n.id.Replicas, shard)
		return err
	}
	n.log.Info("starting a replica", "log", shard, "replica", replica)
	return n.joins(shard, s)
}

// joins starts a replica in the middle of the node's run. Somebody may have subscribed before: he is told of all that
// comes after what this node was fed by then, or, if it was not fed, that he missed what is there.
func (n *Node) joins(shard uint64, s datadir.Replica) error {
	since := n.hub.Joins(shard)
	last, err := n.startReplica(shard, s, false)
	since(last) // 0 if it was not started
	return err
}

// dropReplica stops and deletes this node's replica of a log, which is no member of it
// any more.
func (n *Node) dropReplica(shard, replica uint64) error {
	n.idLock.Lock()
	defer n.idLock.Unlock()
	s, ok := n.id.Replicas[shard]
	if !ok || s.ID != replica {
		return nil
	}
	n.log.Info("deleting a replica that is no member any more", "log", shard, "replica", replica)
	l := n.logs[shard]
	m := l.local.Load()
	err := l.raft.Stop(replica)
	if err != nil && !errors.Is(err, raft.ErrNoReplica) {
		return fmt.Errorf("stop replica %d of log %d: %w", replica, shard, err)
	}
	if m != nil {
		select {
		case <-m.Closed:
		case <-n.stop:
			return nil
		case <-time.After(offload):
			return fmt.Errorf("replica %d of log %d did not stop within %v", replica, shard, offload)
		}
	}
	// From here on a start of the node does not start it.
	delete(n.id.Replicas, shard)
	n.id.Dropped[shard] = max(n.id.Dropped[shard], replica)
	if err := n.id.Save(n.cfg.DataDir); err != nil {
		n.id.Replicas[shard] = s
		return err
	}
	l.local.Store(nil)
	l.leaderChanged(0, 0)
	n.noteLost(shard, false)
	if m != nil {
		m.Checkpoints.Lock()
		m.Gone = true
		m.Checkpoints.Unlock()
	}
	n.hub.EndFeeds(shard)
	ctx, cancel := context.WithTimeout(context.Background(), offload)
	defer cancel()
	if err := l.raft.Remove(ctx, replica); err != nil {
		return fmt.Errorf("delete the raft log of replica %d of log %d: %w", replica, shard, err)
	}
	return n.store.Clear(shard, n.groupsOf(shard))
}

// leftovers deletes what a crash left of replicas that were being deleted.
func (n *Node) leftovers() error {
	for _, shard := range n.id.Logs() {
		if _, ok := n.id.Replicas[shard]; ok {
			continue
		}
		found, err := n.store.Get(replica.LogKey(shard, 'a', nil), func([]byte) error { return nil })
		if err == nil && !found {
			found, err = n.store.HalfInstalled(shard)
		}
		if err == nil && found {
			err = n.store.Clear(shard, n.groupsOf(shard))
		}
		if err != nil {
			return fmt.Errorf("clear log %d: %w", shard, err)
		}
	}
	return nil
}

// replicasHere lists the node's replicas.
func (n *Node) replicasHere() map[uint64]datadir.Replica {
	n.idLock.Lock()
	defer n.idLock.Unlock()
	return maps.Clone(n.id.Replicas)
}

// sortedShards lists logs in order.
func sortedShards[V any](m map[uint64]V) []uint64 {
	return slices.Sorted(maps.Keys(m))
}
