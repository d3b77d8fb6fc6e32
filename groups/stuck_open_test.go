package groups

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// stuckFrozen has a log take nothing any more once something is frozen in it.
type stuckFrozen struct {
	l    *shardLog
	once sync.Once
}

func (s *stuckFrozen) Did(
	_ *replica.Group, _ engine.Clock, cmd *engine.Command, _ replica.Step, _ *wire.Result, _ wire.Result,
	_ *engine.Output,
) {
	if cmd != nil && cmd.Req.Op == wire.OpFreeze {
		s.once.Do(func() { s.l.pauses(true) })
	}
}

// TestStuckBehindFreeze: the log that is to take a subtree over takes nothing any more right after the freeze. The
// attempt gives up when its step has had its time, as it does when a freeze is not answered (TestStuckMove), and not
// only after request_timeout_ms: by then all that was asked in the healthy log meanwhile is refused
// (docs/decisions/0020: a step has 2 to 5 s, and what it froze is undone when one does not come).
func TestStuckBehindFreeze(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c := r.session()
	parent, root := r.inLogs(
		func(i int) string { return fmt.Sprintf("h:/a%d", i) },
		func(i int) string { return fmt.Sprintf("h:/a%d/b", i) },
	)
	stuck := r.node.logOf(r.node.groupOf(root))
	m := stuck.local.Load()
	m.Lock()
	m.Observer = &stuckFrozen{l: stuck}
	m.Unlock()
	change := c.start(r.next.Add(1), setPolicy(root, wire.PointRW))
	eventually(t, "the log is stuck", func() bool {
		stuck.drive.Lock()
		defer stuck.drive.Unlock()
		return stuck.drive.hold != 0
	})
	if res := c.start(r.next.Add(1), write("o", parent+"/y", time.Hour)).get(t, "the acquire"); res.Code != wire.OK {
		t.Errorf("an acquire in a healthy log is answered %+v", res)
	}
	c.must(release("o", parent+"/y"))
	stuck.pauses(false)
	change.get(t, "the change")
	eventually(t, "the change is carried out", func() bool { return c.namespaceOf(root+"/x") == root })
}
