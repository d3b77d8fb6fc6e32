package replica

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// LogDigest is a hash of all that this node's replica of a log means after an entry.
// Replicas that applied the same entries have the same (design.md section 3).
type LogDigest struct {
	Log   uint64 // shard
	Index uint64 // of the last entry applied
	Sum   uint64
}

// Digest is that of one replica.
func (m *Machine) Digest() LogDigest {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.LogRow("")
	for _, g := range m.Order {
		b = binary.BigEndian.AppendUint16(b, g.Number)
		b = binary.BigEndian.AppendUint64(b, g.State.View().Digest())
	}
	b = append(b, m.Sessions.lasting(m.Now.Load(), &m.Limits)...)
	if m.System != nil {
		b = binary.BigEndian.AppendUint64(b, m.System.Digest())
	}
	return LogDigest{Log: m.Shard, Index: m.Applied, Sum: xxh3.Hash(b)}
}
