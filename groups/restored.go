package groups

import "time"

// settleEvery is how often a node that was restored looks whether its logs are
// compacted yet.
const settleEvery = 50 * time.Millisecond

// Growable says that replicas of the logs may be added on other nodes. They may not
// while the logs of a node that was restored from a backup still have their first
// entries: those came on top of a state that a new replica does not have, and raft
// would send it the entries instead of the state.
func (n *Node) Growable() bool {
	n.idLock.Lock()
	defer n.idLock.Unlock()
	return !n.id.Restored
}

// settleLoop makes a node growable that was restored: it has every log take a
// snapshot and drop all entries before it, so that who joins gets the state. When that
// is so for good, the identity no longer says that the node was restored.
func (n *Node) settleLoop() {
	if n.Growable() {
		return
	}
	if n.tasks.wait(forever, n.stop, n.ready) == 0 {
		return
	}
	for left := n.replicasHere(); len(left) > 0; {
		if n.tasks.wait(settleEvery, n.stop) == 0 {
			return
		}
		for shard := range left {
			if n.compacted(shard) {
				delete(left, shard)
			} else {
				n.compact(shard)
			}
		}
	}
	n.idLock.Lock()
	n.id.Restored = false
	err := n.id.Save(n.cfg.DataDir)
	n.id.Restored = err != nil
	n.idLock.Unlock()
	if err != nil {
		n.log.Error("what was restored is ready for other nodes to join, and this cannot be noted: restart the node "+
			"once that is mended", "error", err)
		return
	}
	n.log.Info("what was restored is ready for other nodes to join")
	n.lookAround()
}

// compacted says that a log's first entry is gone.
func (n *Node) compacted(shard uint64) bool {
	first, _, _, err := n.logs[shard].raft.Bounds()
	return err == nil && first > 1
}

// compact asks for a snapshot after which no entry before it is kept.
func (n *Node) compact(shard uint64) {
	m := n.logs[shard].local.Load()
	if m == nil || !m.Loaded.Load() || m.AppliedIndex() == 0 {
		return
	}
	n.snapshotKeeping(shard, 0)
}
