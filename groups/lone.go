package groups

import "time"

// lonePoll is how often a starting node looks whether its logs could be led by it.
const lonePoll = 5 * time.Millisecond

// loneLoop has this node stand for election at once in every log of which it is the only
// voter: there is nobody to hear from, and an election timeout would only make the start
// late.
func (n *Node) loneLoop() {
	for left := n.replicasHere(); len(left) > 0; {
		if n.tasks.wait(lonePoll, n.stop) == 0 {
			return
		}
		for _, r := range n.raft.Replicas() {
			m := n.logs[r.Shard].local.Load()
			if _, ok := left[r.Shard]; !ok || r.Pending || m == nil || !m.Loaded.Load() {
				continue
			}
			_, voter := r.Voters[r.Replica]
			switch {
			case n.logs[r.Shard].lead.Load().leader != 0, !voter || len(r.Voters) != 1:
				delete(left, r.Shard)
			default:
				n.raft.Campaign(r.Shard, r.Replica)
			}
		}
	}
}
