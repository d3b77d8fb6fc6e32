package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestReadsChangeNoReplica looks, on one replica, at groups that nothing is known of, and
// then has an entry applied that is for all groups of a log: the replicas stay the same,
// also one that was restarted.
func TestReadsChangeNoReplica(t *testing.T) {
	r := newRig(t, nil)
	closing := r.session()
	bound := write("a", "h:/held/1", time.Hour)
	bound.Flags |= wire.FlagBind
	closing.must(bound)
	c := r.session()
	for i := range 40 {
		c.inspect(fmt.Sprintf("h:/never%d/1", i))
	}
	before := r.numbers()
	r.clock.freeze()
	r.node.Closed(closing.session, true, false)
	eventually(t, "the lease is as short as its grace", func() bool {
		return r.node.Digests()[0].Index > 0 && r.detached("h:/held/1")
	})
	if len(before) != r.cfg.GroupCount {
		t.Errorf("%d groups are there, of %d: entries for all of them mean something else on another replica",
			len(before), r.cfg.GroupCount)
	}
	r.restart()
	if after := r.numbers(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("groups %v after a restart, %v before it", after, before)
	}
}

// numbers lists the groups that entries for all groups are for.
func (r *rig) numbers() (all []uint16) {
	for _, m := range r.node.hosted() {
		m.Lock()
		for _, g := range m.Order {
			all = append(all, g.Number)
		}
		m.Unlock()
	}
	return all
}

// detached says that the lease on a path ends within its grace.
func (r *rig) detached(path string) bool {
	g := r.node.groupOf("h:/held")
	m := r.node.logOf(g).local.Load()
	m.Lock()
	defer m.Unlock()
	return m.Groups[g].Due > 0 && m.Groups[g].Due < m.Groups[g].State.Now()+time.Minute.Milliseconds()
}
