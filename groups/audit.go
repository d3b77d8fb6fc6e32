package groups

import (
	"encoding/binary"
	"time"
)

// A node that was away may have been removed from logs meanwhile, and nobody in them
// talks to it any more. So it asks their leaders.

// auditEvery is how often.
const auditEvery = 5 * time.Second

// Verdicts on a replica.
const (
	unjudged byte = iota // who was asked does not lead the log
	stillMember
	noMember
)

// auditLoop drops the replicas that are no members of their logs any more.
func (n *Node) auditLoop() {
	t := time.NewTicker(auditEvery)
	defer t.Stop()
	for {
		select {
		case <-n.stop:
			return
		case <-t.C:
		}
		n.audit()
	}
}

// audit asks once.
func (n *Node) audit() {
	asks := make(map[string][]uint64)
	seats := n.seatsNow()
	for _, shard := range sortedShards(seats) {
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
			body = binary.AppendUvarint(binary.AppendUvarint(body, shard), seats[shard].Replica)
		}
		b, err := n.cluster.ask(host, frameMember, body, askWithin)
		if err != nil || len(b) != len(shards) {
			continue
		}
		for i, shard := range shards {
			if b[i] != noMember {
				continue
			}
			if err := n.dropReplica(shard, seats[shard].Replica); err != nil {
				n.log.Error("cannot delete a replica that was removed", "log", shard, "replica", seats[shard].Replica, "error", err)
			}
		}
	}
}

// judge answers which replicas of the asking node are members, of the logs that this
// node leads.
func (c *cluster) judge(conn interface{ Send([]byte) bool }, r *entryReader) {
	id := r.uvarint()
	var asked []seatOf
	for len(r.buf) > 0 && r.err == nil {
		asked = append(asked, seatOf{r.uvarint(), r.uvarint()})
	}
	if r.err != nil {
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

// seatOf is a replica of a log.
type seatOf struct{ shard, replica uint64 }

func (n *Node) verdict(s seatOf) byte {
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
