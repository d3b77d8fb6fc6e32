package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// fullOf fills a group up while nothing is applied, calls f, and lets everything go on: what f asks for in it is
// refused with code 14 (group_in_flight), surely not done.
func fullOf(t *testing.T, r *rig, ns string, f func()) {
	t.Helper()
	l := r.node.logOf(r.node.groupOf(ns))
	l.local.Load().Lock()
	c := r.session()
	var open []*outcome
	for i := range 3 {
		open = append(open, c.start(r.next.Add(1), write("filler", fmt.Sprint(ns, "/filler", i), time.Hour)))
	}
	f()
	l.local.Load().Unlock()
	for _, o := range open {
		o.get(t, "a filler")
	}
}

// askAgain asks once more under an id that was used on this connection, as a server takes it (wire.Call.Again).
func askAgain(c *caller, id uint64, req *wire.Request) *outcome {
	return c.startAs(id, req, func(call *wire.Call) { call.Again = true })
}

func fewGroups(c *Config) { c.MaxInflight, c.GroupCount, c.LogCount = 3, 4, 1 }
