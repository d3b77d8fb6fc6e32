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
		for _, r := range n.raft.replicas() {
			m := n.logs[r.shard].local.Load()
			if _, ok := left[r.shard]; !ok || r.pending || m == nil || !m.Loaded.Load() {
				continue
			}
			_, voter := r.voters[r.replica]
			switch {
			case n.logs[r.shard].lead.Load().leader != 0, !voter || len(r.voters) != 1:
				delete(left, r.shard)
			default:
				n.raft.campaign(r.shard, r.replica)
			}
		}
	}
}
