package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestUnboundWhileAdrift: a wait whose lease is to be tied loses its connection to node 1, and keeps its place for the
// grace. Its client comes back to node 0, where its repeat of the wait is refused with code 14 as too much is under
// way, unbinds the owner, and dies: that connection ends, too. The path is given back within the grace. What is granted
// then is granted to nobody: it ends with the grace at the latest, and not after an hour.
func TestUnboundWhileAdrift(t *testing.T) {
	for name, unbinds := range map[string]bool{"unbinds": true, "does not": false} {
		t.Run(name, func(t *testing.T) {
			const path = "h:/a/x"
			f := apart(t, nil)
			r, r0 := f.rigOn(1), f.rigOn(0)
			c, other := r.session(), r0.session()
			const grace = 5000
			other.must(write("holder", path, time.Hour))
			req := waiting(write("o", path, time.Hour))
			req.Flags |= wire.FlagBind
			id := r.next.Add(1)
			tied := func(call *wire.Call) { call.Grace = grace }
			<-c.startAs(id, req, tied).queued
			r.node.Closed(c.session, true, false)
			eventually(t, "the end is heard", func() bool {
				l := f.nodes[0].logOf(f.nodes[0].groupOf("h:/a"))
				m := l.local.Load()
				m.Lock()
				defer m.Unlock()
				for _, g := range m.Order {
					for _, open := range g.State.OpenCalls() {
						if g.State.Adrift(open.Caller) {
							return true
						}
					}
				}
				return false
			})
			next := r0.session()
			next.session.ID, next.session.Epoch, next.session.First = c.session.ID, 2, r0.next.Add(1)
			n := r0.node
			count, most := &n.inflight[n.slot(n.groupOf("h:/a"))], int32(n.cfg.MaxInflight)
			count.Add(most)
			if res := next.startAs(id, req, tied).get(t, "the repeat"); res.Code != wire.Unavailable {
				t.Fatalf("the repeat is answered %+v", res)
			}
			count.Add(-most)
			if unbinds {
				next.must(&wire.Request{Op: wire.OpUnbind, Owner: "o"})
			}
			r0.node.Closed(next.session, true, false)
			other.must(release("nobody", path)) // behind it
			other.must(release("holder", path))
			for _, i := range other.must(&wire.Request{Op: wire.OpListLocks, Owner: "o"}).List.Infos {
				if i.ExpiresInMillis > grace+2000 {
					t.Errorf("%s is held for %d ms by %q, whose client is dead", path, i.ExpiresInMillis, "o")
				}
			}
		})
	}
}
