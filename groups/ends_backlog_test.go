package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
)

// TestBacklogWaitsForEnds: more leases have run out than one entry may end, when a process is over whose calls wait for
// what they hold. None that was not ended by then is granted to one of these calls.
func TestBacklogWaitsForEnds(t *testing.T) {
	const leases = 300
	r := newRig(t, func(c *Config) { c.LogCount = 1 })
	holder, calling := r.session(), r.served()
	l := r.node.logs[rows.FirstLog]
	m, group := l.local.Load(), r.node.groupOf("h:/a")
	r.clock.freeze()
	path := func(i int) string { return fmt.Sprint("h:/a/", i) }
	for i := range leases {
		holder.must(write(fmt.Sprint("holder ", i), path(i), 500*time.Millisecond))
		r.row(calling, "call", path(i))
	}
	m.Lock()
	m.Limits.ReapBudget = 1
	m.Unlock()
	left := func() (left []int) { // that are held by who held them
		for i := range leases {
			if m.View(group).Inspect("h:/a", path(i)).Owner != "call" {
				left = append(left, i)
			}
		}
		return left
	}
	r.clock.advance(time.Second)
	l.kick()
	eventually(t, "some are over", func() bool { return len(left()) < leases-2 })
	l.pauses(true)
	eventually(t, "nothing is under way", func() bool {
		l.drive.Lock()
		defer l.drive.Unlock()
		return len(l.drive.under) == 0
	})
	rest := left()
	if len(rest) == 0 {
		t.Fatal("all are over")
	}
	r.node.processOver(r.node.id.HostID, r.node.id.Starts)
	l.pauses(false)
	r.clock.run()
	eventually(t, "all are over", func() bool {
		at, _ := m.NextDeadline()
		return at == 0 || at > r.clock.Mono()+time.Second
	})
	for _, i := range rest {
		if owner := holder.inspect(path(i)).Owner; owner != "" {
			t.Errorf("%s is granted to %q", path(i), owner)
		}
	}
}
