package groups

import (
	"fmt"
	"testing"

	"github.com/pathlockd/pathlockd/groups/place"
	"github.com/pathlockd/pathlockd/groups/rows"
)

// TestNotGrowable: while the logs of a restored node are not compacted it plans replicas
// on others, and adds none.
func TestNotGrowable(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 1, nil)
	n := f.nodes[0]
	restored := func(is bool) {
		n.idLock.Lock()
		defer n.idLock.Unlock()
		n.id.Restored = is
	}
	restored(true)
	f.grow(nil)
	f.grow(nil)
	seen := "" // which round the plans are of
	for round := range 4 {
		f.until(fmt.Sprintf("round %d plans replicas", round), func() bool {
			n.lookAround()
			n.plans.mu.Lock()
			defer n.plans.mu.Unlock()
			at := fmt.Sprintf("%p", n.plans.by)
			if at == seen || n.plans.by[rows.FirstLog].step.Kind != place.Add {
				return false
			}
			seen = at
			return true
		})
	}
	for _, m := range n.hosted() {
		ms, err := n.membership(m.Shard)
		if err != nil {
			t.Fatal(err)
		}
		if len(ms.Nodes)+len(ms.NonVotings) != 1 {
			t.Errorf("log %d has the voters %v and learners %v", m.Shard, ms.Nodes, ms.NonVotings)
		}
	}
	restored(false)
	f.settle(3)
}
