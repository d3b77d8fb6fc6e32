package groups

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestStalledIsNotHealthy: a node that leads a log and cannot write to it says so, though
// every log has a leader and the system log answers.
func TestStalledIsNotHealthy(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.clock.freeze()
	const path = "h:/a/1"
	c, l := r.session(), r.node.logOf(r.node.groupOf("h:/a"))
	want := fmt.Sprintf("log %d takes no writes", l.shard)
	sick := func(what string) {
		t.Helper()
		if res := r.node.health(); res.Flag || !strings.Contains(res.Message, want) {
			t.Errorf("%s: healthy %v, %q, want %q", what, res.Flag, res.Message, want)
		}
	}
	well := func() {
		t.Helper()
		eventually(t, "healthy", func() bool { return r.node.health().Flag })
	}
	m := l.local.Load()

	m.Lock() // nothing is applied
	open := c.start(r.next.Add(1), write("o", path, time.Hour))
	well() // for so long
	r.clock.advance(healthWithin)
	sick("what was proposed is not applied")
	m.Unlock()
	<-open.done
	well()

	m.Lock()
	term := l.held.Swap(0)
	sick("its leader epoch is not in force")
	l.held.Store(term)
	m.Unlock()
	l.kick()
	well()
}
