package groups

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestNoWaitWithoutLeader: who does not want to wait for a lock does not wait for a leader
// either, once an election would be over: it is told which log has none, for how long, and
// who led it last. A request may take ten minutes here.
func TestNoWaitWithoutLeader(t *testing.T) {
	t.Parallel()
	w := new(network)
	f := newLocalCluster(t, 3, func(_ int, c *Config) {
		c.Faults, c.EvictionWindow, c.LogCount, c.RequestTimeout = w, time.Hour, 1, 10*time.Minute
	})
	f.settle(3)
	const path = "h:/unled/x"
	led := f.leader(path)
	at := (led + 1) % 3
	n, r := f.nodes[at], f.rigOn(at)
	c := r.session()
	c.must(write("before", path, time.Hour)) // it knows who leads
	w.set(n.id.NodeID, true)
	f.until("it knows of no leader", func() bool {
		return n.logs[rows.FirstLog].leaderless() && n.logs[rows.SystemLog].leaderless()
	})
	want := fmt.Sprintf("%s led it last", f.nodes[led].id.NodeID)
	try := write("o", path, time.Hour)
	try.Flags |= wire.FlagNoQueue
	for i, what := range []string{"asked while one may be elected", "asked after that"} {
		o := c.start(r.next.Add(1), try)
		f.until("who does not want to wait is answered: "+what, func() bool { return len(o.done) > 0 })
		res := <-o.done
		undone := res.Code == wire.Unavailable && strings.Contains(res.Message, "nothing was done")
		// It may have been sent to the leader that there was.
		unheard := i == 0 && res.Code == wire.DeadlineExceeded && strings.Contains(res.Message, "outcome is not known")
		if !undone && !unheard || !strings.Contains(res.Message, "log 2 has had no leader for ") ||
			!strings.Contains(res.Message, want) {
			t.Errorf("%s: %v %q, want %q", what, res.Code, res.Message, want)
		}
	}
	if res := n.health(); res.Flag || !strings.Contains(res.Message, "led it last") {
		t.Errorf("health: %v %q", res.Flag, res.Message)
	}
}
