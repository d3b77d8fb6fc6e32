package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestOwnOldEnd: a client takes two locks on node 1, tied, loses that connection, goes on at node 0 with the next
// epoch, and keeps the lease of one of them there by a renewal without flag 8. Node 1 sees the old connection end
// before that, or after: the other lease says when the log has taken it. What was kept lasts either way, and ends with
// the new connection.
func TestOwnOldEnd(t *testing.T) {
	for name, before := range map[string]bool{"before the renewal": true, "after the renewal": false} {
		t.Run(name, func(t *testing.T) {
			f := apart(t, nil)
			r, r0 := f.rigOn(1), f.rigOn(0)
			c, other := r.session(), r0.session()
			const grace = 5000 // for what the client does within it
			for _, owner := range []string{"o", "left"} {
				req := write(owner, "h:/a/"+owner, time.Hour)
				req.Flags |= wire.FlagBind
				o := c.startAs(r.next.Add(1), req, func(call *wire.Call) { call.Grace = grace })
				if res := o.get(t, owner); res.Status != wire.StatusOK || res.Err() != nil {
					t.Fatalf("%s is answered %v %v", owner, res.Status, res.Err())
				}
			}
			left := func(owner string) time.Duration {
				i := other.must(&wire.Request{Op: wire.OpListLocks, Owner: owner}).List.Infos
				if len(i) == 0 {
					return 0
				}
				return time.Duration(i[0].ExpiresInMillis) * time.Millisecond
			}
			ends := func() {
				r.node.Closed(c.session, true, false)
				eventually(t, "the old connection's end is taken", func() bool { return left("left") < time.Minute })
			}
			next := r0.session()
			next.session.ID, next.session.Epoch = c.session.ID, 2
			if before {
				ends()
			}
			if res := next.ask(&wire.Request{Op: wire.OpRenew, Owner: "o",
				TTLMillis: 3_600_000}); res.Status != wire.StatusOK {
				t.Fatalf("the renewal is answered %v %v", res.Status, res.Reason)
			}
			if !before {
				ends()
			}
			if d := left("o"); d < time.Minute {
				t.Errorf("its session's connection stands and renewed the lease for an hour: %v are left", d)
			}
			f.nodes[0].Closed(next.session, true, false)
			eventually(t, "it ends with the new connection", func() bool { return left("o") < time.Minute })
		})
	}
}
