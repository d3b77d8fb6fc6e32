package groups

import (
	"sync/atomic"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/pathlockd/pathlockd/groups/link"
	"github.com/pathlockd/pathlockd/groups/rows"
)

// wiring is the transport that raft is given: the link, and a way to hand a message to
// this node's own raft.
type wiring struct {
	*link.Link
	deployment uint64
	own        atomic.Pointer[raftio.MessageHandler]
}

// Create implements config.TransportFactory.
func (w *wiring) Create(c config.NodeHostConfig, m raftio.MessageHandler, s raftio.ChunkHandler) raftio.ITransport {
	w.own.Store(&m)
	return w.Link.Create(c, m, s)
}

// campaign makes this node's replica of a log stand for election now and not after the
// election timeout, as if the last leader had asked it to.
func (w *wiring) campaign(shard, replica uint64) {
	w.tell(raftpb.Message{Type: raftpb.TimeoutNow, ShardID: shard, To: replica, From: replica})
}

// resume has this node's replica of a log, its leader, send to a learner again, as if that had answered a heartbeat.
//
// dragonboat waits for such an answer once something that it sent a learner was lost, as is the first that it sends one
// that is about to be started. But while the leader's lease for a read is being confirmed it sends learners no heartbeat:
// seldom ones where there is always some read, and none for good where a read was under way as the log came to have one
// voter alone: nobody is left to confirm that one, and it is not forgotten before the log has another leader. Such a log
// had no second voter any more, and each node but its leader knew of none (found by the laboratory).
func (w *wiring) resume(shard, leader, learner uint64) {
	w.tell(raftpb.Message{Type: raftpb.HeartbeatResp, ShardID: shard, To: leader, From: learner})
}

// tell hands a message to this node's own raft. Without a term it is one of its own.
func (w *wiring) tell(m raftpb.Message) {
	if deliver := w.own.Load(); deliver != nil {
		(*deliver)(raftpb.MessageBatch{
			DeploymentId: w.deployment, BinVer: raftio.TransportBinVersion, Requests: []raftpb.Message{m},
		})
	}
}

// newWiring makes the transport of a node.
func (n *Node) newWiring() (*wiring, error) {
	l, err := link.New(link.Config{
		Cluster: n.id.ClusterID, Node: n.id.NodeID, Host: n.id.HostID, Token: n.cfg.Token, TLS: n.cfg.LinkTLS,
		FormatMin: rows.OldestFormat, FormatMax: rows.NewestFormat, InUse: n.formats.used, Raise: n.useFormat, Admit: n.admitPeer, Faults: n.cfg.Faults, Log: n.log,
	})
	return &wiring{Link: l, deployment: n.id.deployment()}, err
}
