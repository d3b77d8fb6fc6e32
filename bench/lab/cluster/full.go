package cluster

// Room on the disk of a node of this process, as it is told.
const (
	reserve  = 1 << 30
	plenty   = 4 * reserve
	scarce   = reserve * 3 / 4 // writes that grow the state are refused
	starving = reserve / 4     // and renewals
)

// free is Config.Free.
func (m *member) free(string) (uint64, error) { return m.room.Load(), nil }

// Fill implements Cluster: the node's disk has less than its reserve, and every other time
// so little that not even leases are renewed.
func (n *Nodes) Fill(node int) error {
	m := n.members()[node]
	if up, _ := m.up(); up == nil {
		return ErrDown
	}
	m.fills++
	m.room.Store(scarce)
	if m.fills%2 == 0 {
		m.room.Store(starving)
	}
	return nil
}

// Empty implements Cluster.
func (n *Nodes) Empty(node int) error {
	n.members()[node].room.Store(plenty)
	return nil
}
