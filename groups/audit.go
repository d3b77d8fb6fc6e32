package groups

import (
	"encoding/binary"
	"time"

	"github.com/pathlockd/pathlockd/groups/codec"
)

// Who is removed from a log does not hear of it from raft: nobody in it talks to it any
// more. The leader that removed it says so (tellRemoved), and as a node may have been away
// then, each asks the leaders of its logs again and again.

// auditGap is the least time between two rounds of it.
const auditGap = 100 * time.Millisecond

// Verdicts on a replica.
const (
	unjudged byte = iota // who was asked does not lead the log
	stillMember
	noMember
)

// auditLoop drops the replicas that are no members of their logs any more: audit, each time somebody calls for it. What
// was not answered is asked again after a pause: what called for it does not come twice.
func (n *Node) auditLoop(audit func() (told bool)) {
	t := time.NewTicker(n.cfg.AuditEvery)
	defer t.Stop()
	pause := auditGap
	for {
		select {
		case <-n.stop:
			return
		case <-n.audits:
		case <-t.C:
		}
		if audit() {
			pause = auditGap
		} else {
			pause = min(2*pause, n.cfg.AuditEvery)
			n.auditSoon()
		}
		select {
		case <-n.stop:
			return
		case <-time.After(pause):
		}
	}
}

// auditSoon has the node ask soon whether its replicas are members of their logs yet.
func (n *Node) auditSoon() {
	select {
	case n.audits <- struct{}{}:
	default:
	}
}

// auditUntold has the node ask soon if another one leads a log of which raft tells the replica here that nobody leads
// it: so it is with a node that was cut off and given up, and goes by its old replica until it has asked. An election
// may look so for a moment, too; that costs a question.
func (n *Node) auditUntold(host string, shards ...uint64) {
	for _, shard := range shards {
		if leader, _ := n.leaderOf(shard); leader == host && host != n.id.HostID && n.logs[shard].deserted() {
			n.auditSoon()
			return
		}
	}
}

// tellRemoved tells a node that a replica of it was removed: what it is asked to read of
// that log it asks others then. If it cannot be told now it asks by itself later.
func (n *Node) tellRemoved(host string) {
	if err := n.cluster.askText(host, askAudit, nil, nil, askWithin); err != nil {
		n.log.Debug("a node was not told that it lost a replica", "node", n.nameOf(host), "error", err)
	}
}

// audit asks once, and says whether all that was asked is answered.
func (n *Node) audit() (told bool) {
	told = true
	asks := make(map[string][]uint64)
	here := n.replicasHere()
	for _, shard := range sortedShards(here) {
		if n.logs[shard].leads() {
			continue
		}
		if host, _ := n.leaderOf(shard); host != "" && host != n.id.HostID {
			asks[host] = append(asks[host], shard)
		}
	}
	for host, shards := range asks {
		var body []byte
		for _, shard := range shards {
			body = binary.AppendUvarint(binary.AppendUvarint(body, shard), here[shard].ID)
		}
		b, err := n.cluster.ask(host, frameMember, body, askWithin)
		if err != nil || len(b) != len(shards) {
			told = false
			continue
		}
		for i, shard := range shards {
			if b[i] != noMember {
				told = told && b[i] != unjudged
				continue
			}
			if err := n.dropReplica(shard, here[shard].ID); err != nil {
				n.log.Error("cannot delete a replica that was removed", "log", shard, "replica", here[shard].ID,
					"error", err)
			}
		}
	}
	return told
}

// judge answers which replicas of the asking node are members, of the logs that this
// node leads.
func (c *cluster) judge(conn interface{ Send([]byte) bool }, r *codec.Reader) {
	id := r.Uvarint()
	var asked []replicaOf
	for len(r.Buf) > 0 && r.Err == nil {
		asked = append(asked, replicaOf{r.Uvarint(), r.Uvarint()})
	}
	if r.Err != nil {
		return
	}
	c.answering(func() {
		frame := binary.AppendUvarint([]byte{frameJudged}, id)
		for _, s := range asked {
			frame = append(frame, c.n.verdict(s))
		}
		conn.Send(frame)
	})
}

// replicaOf is a replica of a log.
type replicaOf struct{ shard, replica uint64 }

func (n *Node) verdict(s replicaOf) byte {
	l := n.logs[s.shard]
	if l == nil || !l.leads() {
		return unjudged
	}
	ms, err := n.membership(s.shard)
	if err != nil {
		return unjudged
	}
	if _, gone := ms.Removed[s.replica]; gone {
		return noMember
	}
	return stillMember
}
