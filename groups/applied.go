package groups

import (
	"encoding/binary"
	"sync"

	"github.com/pathlockd/pathlockd/groups/codec"
	"github.com/pathlockd/pathlockd/groups/raft"
)

// replicaAt is a log on a node.
type replicaAt struct {
	host  string
	shard uint64
}

// askApplied asks every node that hosts a replica of the given logs how far it is. Being
// asked, a node starts replicas that it should have and has not.
func (n *Node) askApplied(logs map[uint64]*raft.Membership) map[replicaAt]uint64 {
	type want struct {
		shards []uint64
		body   []byte
	}
	wants := make(map[string]*want)
	out := make(map[replicaAt]uint64)
	for _, shard := range sortedShards(logs) {
		if m := n.logs[shard].local.Load(); m != nil {
			out[replicaAt{n.id.HostID, shard}] = m.AppliedIndex()
		}
		for _, set := range []map[uint64]string{logs[shard].Nodes, logs[shard].NonVotings} {
			for replica, host := range set {
				if host == n.id.HostID {
					continue
				}
				w := wants[host]
				if w == nil {
					w = new(want)
					wants[host] = w
				}
				w.shards = append(w.shards, shard)
				w.body = binary.AppendUvarint(binary.AppendUvarint(w.body, shard), replica)
			}
		}
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for host, w := range wants {
		all.Go(func() {
			b, err := n.cluster.ask(host, frameReplicas, w.body, askWithin)
			if err != nil {
				return // not reported: it does not count as caught up
			}
			r := codec.Reader{Buf: b}
			mu.Lock()
			defer mu.Unlock()
			for _, shard := range w.shards {
				if v := r.Uvarint(); v > 0 && r.Err == nil {
					out[replicaAt{host, shard}] = v - 1
				}
			}
		})
	}
	all.Wait()
	return out
}

// tellApplied answers how far replicas of this node are, and starts those that it should
// have by what a leader says.
func (c *cluster) tellApplied(conn interface{ Send([]byte) bool }, r *codec.Reader) {
	frame := binary.AppendUvarint([]byte{frameApplied}, r.Uvarint())
	for len(r.Buf) > 0 && r.Err == nil {
		shard, replica := r.Uvarint(), r.Uvarint()
		l := c.n.logs[shard]
		if r.Err != nil || l == nil {
			return
		}
		m := l.local.Load()
		switch {
		case m != nil && m.Replica == replica && m.Loaded.Load():
			frame = binary.AppendUvarint(frame, m.AppliedIndex()+1)
			continue
		case m == nil || m.Replica < replica:
			c.n.startReplicaSoon(shard, replica)
		}
		frame = append(frame, 0)
	}
	conn.Send(frame)
}

// startReplicaSoon starts a replica that a leader has added here.
func (n *Node) startReplicaSoon(shard, replica uint64) {
	n.wanted.Lock()
	defer n.wanted.Unlock()
	if n.wanted.under[shard] {
		return
	}
	if n.wanted.under == nil {
		n.wanted.under = make(map[uint64]bool)
	}
	n.wanted.under[shard] = true
	n.running.Go(func() {
		if s, ok := n.replicasHere()[shard]; ok && s.ID < replica {
			if err := n.dropReplica(shard, s.ID); err != nil {
				n.log.Error("cannot delete a replica that was replaced", "log", shard, "replica", s.ID, "error", err)
			}
		}
		if err := n.addReplica(shard, replica); err != nil {
			n.log.Error("cannot start a replica", "log", shard, "replica", replica, "error", err)
		}
		n.wanted.Lock()
		defer n.wanted.Unlock()
		delete(n.wanted.under, shard)
	})
}
