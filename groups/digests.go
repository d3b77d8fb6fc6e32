package groups

import (
	"encoding/binary"
	"slices"

	"github.com/zeebo/xxh3"
)

// LogDigest is a hash of all that this node's replica of a log means after an entry.
// Replicas that applied the same entries have the same (design.md section 3).
type LogDigest struct {
	Log   uint64 // shard
	Index uint64 // of the last entry applied
	Sum   uint64
}

// Digests is for the fault laboratory: it looks at everything there is, under the lock
// that entries are applied under.
func (n *Node) Digests() (all []LogDigest) {
	for _, m := range n.hosted() {
		all = append(all, m.digest())
	}
	slices.SortFunc(all, func(a, b LogDigest) int { return int(a.Log) - int(b.Log) })
	return all
}

// digest is that of one replica.
func (m *machine) digest() LogDigest {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.logRow("")
	for _, g := range m.order {
		b = binary.BigEndian.AppendUint16(b, g.number)
		b = binary.BigEndian.AppendUint64(b, g.state.View().Digest())
	}
	b = append(b, m.sessions.lasting(m.now.Load(), &m.limits)...)
	if m.system != nil {
		b = binary.BigEndian.AppendUint64(b, m.system.Digest())
	}
	return LogDigest{Log: m.shard, Index: m.applied, Sum: xxh3.Hash(b)}
}
