package groups

import (
	"slices"

	"github.com/pathlockd/pathlockd/groups/replica"
)

// Stats is how much a node keeps, in all its logs.
type Stats struct {
	Locks   int // held
	Waiting int // paths waited for
}

// Stats counts what the node keeps. What has expired and is not reaped yet counts.
func (n *Node) Stats() (s Stats) {
	for _, m := range n.hosted() {
		locks, waiting := m.Counts()
		s.Locks += locks
		s.Waiting += waiting
	}
	return s
}

// Digests is for the fault laboratory: it looks at everything there is, under the lock
// that entries are applied under.
func (n *Node) Digests() (all []replica.LogDigest) {
	for _, m := range n.hosted() {
		all = append(all, m.Digest())
	}
	slices.SortFunc(all, func(a, b replica.LogDigest) int { return int(a.Log) - int(b.Log) })
	return all
}
