package groups

import (
	"time"

	"github.com/lni/dragonboat/v4"
)

// lonePoll is how often a starting node looks whether its logs could be led by it.
const lonePoll = 5 * time.Millisecond

// loneLoop has this node stand for election at once in every log of which it is the only
// voter: there is nobody to hear from, and an election timeout would only make the start
// late.
func (n *Node) loneLoop() {
	t := time.NewTicker(lonePoll)
	defer t.Stop()
	for left := n.seatsNow(); len(left) > 0; {
		select {
		case <-n.stop:
			return
		case <-t.C:
		}
		info := n.host.GetNodeHostInfo(dragonboat.NodeHostInfoOption{SkipLogInfo: true})
		for i := range info.ShardInfoList {
			s := &info.ShardInfoList[i]
			m := n.logs[s.ShardID].local.Load()
			if _, ok := left[s.ShardID]; !ok || s.Pending || m == nil || !m.loaded.Load() {
				continue
			}
			_, voter := s.Replicas[s.ReplicaID]
			switch {
			case n.logs[s.ShardID].lead.Load().leader != 0, !voter || len(s.Replicas) != 1:
				delete(left, s.ShardID)
			default:
				n.wire.campaign(s.ShardID, s.ReplicaID)
			}
		}
	}
}
