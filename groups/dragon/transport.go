package dragon

import (
	"sync/atomic"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/pathlockd/pathlockd/groups/link"
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

// stepDown has this node's replica of a log give up leading it in a term, as if it had heard of a later one. Who was
// the one voter leads it anew then (Node.relead), and has forgotten what it waited for.
//
// dragonboat waits for a learner's answer to a heartbeat once something that it sent was lost, as is the first that it
// sends one that is about to be started. But while it confirms a read it sends learners no heartbeat. Where a read was
// under way as the log came to have one voter alone nobody is left to confirm it, and it is not forgotten before the
// log has another leader: such a log had no second voter any more, and each node but its leader knew of none (found by
// the laboratory). All that it proposed is committed, as there is one voter.
//
// To answer in the learner's place was tried: such an answer does not come behind what is on its way to the learner, as
// a true one does, and on a slow way the log was sent again each second; once the learner voted, heartbeats to it were
// behind that, and the log took no write for 44 s.
func (w *wiring) stepDown(shard, replica, term uint64) {
	w.tell(raftpb.Message{Type: raftpb.NoOP, ShardID: shard, To: replica, From: replica, Term: term + 1})
}

// tell hands messages to this node's own raft. One without a term is of any.
func (w *wiring) tell(messages ...raftpb.Message) {
	if deliver := w.own.Load(); deliver != nil {
		(*deliver)(raftpb.MessageBatch{
			DeploymentId: w.deployment, BinVer: raftio.TransportBinVersion, Requests: messages,
		})
	}
}
