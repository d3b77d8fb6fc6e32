package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestOwnOldEnd: a client takes a lock on node 1, tied (grace 100 ms), loses that connection, goes on at node 0 with the
// next epoch, and keeps the lease there by a renewal without flag 8. Node 1 sees the old connection end before that, or
// after; the lease lasts either way, and ends with the new connection.
func TestOwnOldEnd(t *testing.T) {
	for name, before := range map[string]bool{"before the renewal": true, "after the renewal": false} {
		t.Run(name, func(t *testing.T) {
			f := apart(t, nil)
			r, r0 := f.rigOn(1), f.rigOn(0)
			c, other := r.session(), r0.session()
			req := write("o", "h:/a/o", time.Hour)
			req.Flags |= wire.FlagBind
			c.must(req)
			alive := func() bool { return other.must(&wire.Request{Op: wire.OpIsOwnerAlive, Owner: "o"}).Flag }
			next := r0.session()
			next.session.ID, next.session.Epoch = c.session.ID, 2
			if before {
				r.node.Closed(c.session, true, false)
				eventually(t, "the grace runs", func() bool {
					i := other.must(&wire.Request{Op: wire.OpListLocks, Owner: "o"}).List.Infos
					return len(i) == 0 || i[0].ExpiresInMillis < 1000
				})
			}
			if res := next.ask(&wire.Request{Op: wire.OpRenew, Owner: "o", TTLMillis: 3_600_000}); res.Status == wire.RenewLost {
				t.Skip("too slow: the grace was over")
			}
			if !before {
				r.node.Closed(c.session, true, false)
			}
			time.Sleep(time.Second)
			if !alive() {
				t.Error("the lease is over, and its session's connection stands and renewed it for an hour")
			}
			f.nodes[0].Closed(next.session, true, false)
			eventually(t, "it ends with the new connection", func() bool { return !alive() })
		})
	}
}
