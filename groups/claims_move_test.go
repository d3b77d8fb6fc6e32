package groups

import (
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAttemptBeforeALeave: a keyed request is slow behind its claim, which says that what it is about lies in h:/a.
// That becomes a namespace of its own: the routes have changed, but the last step of the change (leave) has not come to
// the group of h:/a yet, as when the node that carries changes out dies behind its commit. The request is asked again,
// leaves it out by the new routes, and is answered OK. The owner takes another path in h:/a. Then the slow one goes on,
// and takes nothing away.
func TestAttemptBeforeALeave(t *testing.T) {
	for name, ops := range map[string]wire.Op{"release_all": wire.OpReleaseAll, "release": wire.OpRelease} {
		t.Run(name, func(t *testing.T) {
			h := newHeldCall()
			r := newRig(t, func(c *Config) {
				briefKeys(c)
				c.stated = nil // keys are kept for 300 s
				c.seams.claimed = h.claimed
			})
			n := r.node
			logA := n.logOf(n.groupOf("h:/a"))
			nested := firstName("h:/a/b%d", func(s string) bool { return n.logOf(n.groupOf(s)) != logA })
			key := firstName("k%d", func(s string) bool { return n.logOf(wire.HomeOf(s, n.cfg.GroupCount)) != logA })
			logB := n.logOf(n.groupOf(nested))
			other := r.session()
			other.must(write("o", "h:/a/w", time.Hour))
			req := &wire.Request{Op: ops, Owner: "o", Key: key, Domains: []string{nested}}
			if ops == wire.OpRelease {
				req.Domains = nil
				req.Releases = []wire.ReleaseRequest{{Path: nested + "/x"}, {Path: nested + "/z"}}
			}
			ask := func() *outcome { return r.session().start(r.next.Add(1), req) }
			slow := h.holds(ask)

			// Of the change all is carried out but the leave in the log of h:/a.
			queued := func(l *shardLog, op wire.Op) bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				return slices.ContainsFunc(l.mu.queue, func(p *part) bool { return p.Op == op })
			}
			logB.pauses(true)
			change := r.session().start(r.next.Add(1), setPolicy(nested, wire.RecursiveRW))
			eventually(t, "freeze is queued", func() bool { return queued(logB, wire.OpFreeze) })
			eventually(t, "h:/a is frozen", func() bool {
				m := logA.local.Load()
				m.Lock()
				defer m.Unlock()
				return len(m.Groups[n.groupOf("h:/a")].State.Freezing()) > 0
			})
			logA.pauses(true)
			logB.pauses(false)
			eventually(t, "the routes have changed and leave is queued", func() bool {
				return n.routes.Load().Has(nested) && queued(logA, wire.OpLeave)
			})
			var leaves []*part
			logA.mu.Lock()
			logA.mu.queue = slices.DeleteFunc(logA.mu.queue, func(p *part) bool {
				if p.Op == wire.OpLeave {
					leaves = append(leaves, p)
				}
				return p.Op == wire.OpLeave
			})
			logA.mu.Unlock()
			logA.pauses(false)

			if res := ask().get(t, "the quick one"); res.Code != wire.OK {
				t.Fatalf("the quick one is answered %v %s", res.Code, res.Message)
			}
			took := other.ask(write("o", "h:/a/y", time.Hour))
			if took.Code != wire.OK || took.Status != wire.StatusOK {
				t.Fatalf("the acquire behind it is answered %+v", took)
			}
			close(h.goOn)
			res := slow.get(t, "the slow one")
			thief := r.session().ask(write("p", "h:/a/y", time.Hour))
			for _, p := range leaves { // it comes now
				logA.push(p)
			}
			logA.start()
			change.get(t, "the change")
			if owner := other.inspect("h:/a/y").Owner; owner != "o" {
				t.Errorf("o took h:/a/y with token %d; the slow one, answered %v %s, took it away: held by %q; p is "+
					"answered %v, %d",
					took.Token, res.Code, res.Message, owner, thief.Status, thief.Token)
			}
		})
	}
}
