package groups

import (
	"encoding/binary"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/pathlockd/pathlockd/engine"
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
	blank := engine.New(n.engineConfig(), nil, nil).View().Digest()
	for _, m := range n.hosted() {
		all = append(all, m.digest(blank))
	}
	slices.SortFunc(all, func(a, b LogDigest) int { return int(a.Log) - int(b.Log) })
	return all
}

// digest leaves out groups that nothing is known of: reads make them, on one replica.
func (m *machine) digest(blank uint64) LogDigest {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.logRow()
	for _, g := range m.order {
		if sum := g.state.View().Digest(); sum != blank {
			b = binary.BigEndian.AppendUint16(b, g.number)
			b = binary.BigEndian.AppendUint64(b, sum)
		}
	}
	if m.system != nil {
		b = binary.BigEndian.AppendUint64(b, m.system.Digest())
	}
	return LogDigest{Log: m.shard, Index: m.applied, Sum: xxh3.Hash(b)}
}
