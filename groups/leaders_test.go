package groups

import (
	"strings"
	"testing"
	"time"
)

// TestHasALeaderAgain: a log that gets its leader between two looks at it has had none for no time, and not since its
// node was started: what is asked just then is not refused. One that has lost its leader says since when.
func TestHasALeaderAgain(t *testing.T) {
	r := newRig(t, nil)
	n := r.node
	for _, shard := range n.id.shards() {
		if d, why := n.noLeader(shard); d != 0 || !strings.HasSuffix(why, "had no leader until now") {
			t.Errorf("of log %d, which has a leader: %v, %q", shard, d, why)
		}
	}
	shard := n.id.shards()[1]
	l := n.logs[shard]
	was := *l.lead.Load()
	n.noteLost(shard, true)
	l.lead.Store(&leadership{term: was.term})
	r.clock.hurry(time.Second)
	if d, why := n.noLeader(shard); d < time.Second || d > time.Minute || !strings.Contains(why, "has had no leader for") {
		t.Errorf("of log %d, which has lost its leader: %v, %q", shard, d, why)
	}
	l.lead.Store(&was)
	n.noteLost(shard, false)
}
