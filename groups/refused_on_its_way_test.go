package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestRefusedOnItsWay: who does not want to wait asks a node that forwards, and the node that led the logs leads them
// no more. What is forwarded comes back, refused, and goes there again, so that it is on its way half of the time. When
// that has lasted for as long as an election takes the caller is told that nothing was done, wherever its request is,
// and not that nobody knows.
func TestRefusedOnItsWay(t *testing.T) {
	t.Parallel()
	const logs = 12 // on their way or not, each by itself
	f := apart(t, func(_ int, c *Config) {
		c.LogCount, c.RequestTimeout, c.EvictionWindow = logs, time.Minute, time.Hour
	})
	leader, n := f.nodes[0], f.nodes[1]
	r := f.rigOn(1)
	slows(t, n, leader, 100*time.Millisecond)
	paths := make(map[uint64]string)
	for i := 0; len(paths) < logs; i++ {
		path := fmt.Sprintf("h:/n%d", i)
		if shard := n.logOf(n.groupOf(path)).shard; paths[shard] == "" {
			paths[shard] = path
			r.session().must(noQueue(path))
		}
	}
	for shard := range paths {
		if shard == rows.SystemLog || n.logs[shard].local.Load() != nil {
			t.Fatal("this shows nothing: it does not forward")
		}
		l := leader.logs[shard]
		leader.noteLost(shard, true)
		l.leaderChanged(l.lead.Load().term, 0)
	}
	answers := make(map[string]*outcome)
	for _, path := range paths {
		answers[path] = r.session().start(r.next.Add(1), noQueue(path+"/x"))
		time.Sleep(17 * time.Millisecond) // so that they are not all on their way at the same time
	}
	for path, o := range answers {
		if res := o.get(t, path); res.Code != wire.Unavailable {
			t.Errorf("%s is answered %v: %s", path, res.Code, res.Message)
		}
	}
}
