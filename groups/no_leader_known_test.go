package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
)

// TestNoLeaderUntilNow: a node without a replica of a log hears of its leader between two looks of who finds out for
// how long there has been none. It has not been since the node was started.
func TestNoLeaderUntilNow(t *testing.T) {
	b := newBare(t, rows.FirstLog, replica.DefaultLimits())
	b.n.logs = map[uint64]*shardLog{rows.FirstLog: b.l}
	time.Sleep(time.Millisecond)
	if d, why := b.n.noLeader(rows.FirstLog); d == 0 {
		t.Errorf("it never had one: %v %s", d, why)
	}
	b.n.leaders.by = map[uint64]leaderInfo{rows.FirstLog: {term: 1, host: "n-9"}}
	if d, why := b.n.noLeader(rows.FirstLog); d != 0 {
		t.Errorf("it has one: %v %s", d, why)
	}
}
