package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// startBound asks for something that is to be tied to the connection, with a grace of its own.
func (c *caller) startBound(id uint64, req *wire.Request, grace uint64) *outcome {
	c.r.t.Helper()
	call := &wire.Call{ID: id, Op: req.Op, Req: req, Session: c.session, To: c, Bound: true, Grace: grace}
	call.Body, call.NArgs = wire.AppendArgs(nil, req)
	o := &outcome{queued: make(chan wire.Result, 1), done: make(chan wire.Result, 1)}
	c.mu.Lock()
	c.open[call] = o
	c.mu.Unlock()
	c.r.live.Load().Serve([]*wire.Call{call})
	return o
}

// TestAdv2GraceOfTheFirst: two sessions use one owner. The first has tied its lease with a grace
// of a minute, its connection breaks, and it is back within that. That another session of the
// owner, with a short grace, came and went meanwhile must not take its lock.
func TestAdv2GraceOfTheFirst(t *testing.T) {
	for _, secondTies := range []string{"before the first one's connection ends", "after it"} {
		t.Run("the second ties "+secondTies, func(t *testing.T) {
			r := newRig(t, nil)
			first, second, other := r.session(), r.session(), r.session()
			first.startBound(r.next.Add(1), write("svc", "h:/n/first", time.Hour), 60_000).get(t, "first")
			take := func() {
				second.startBound(r.next.Add(1), write("svc", "h:/n/second", time.Hour), 100).get(t, "second")
			}
			if secondTies != "after it" {
				take()
			}
			r.node.Closed(first.session, true, false) // a proxy drops it: the client believes for a minute
			if secondTies == "after it" {
				take()
			}
			r.node.Closed(second.session, true, false)
			time.Sleep(3 * time.Second)
			if res := other.ask(write("another", "h:/n/first", time.Hour)); res.Code == wire.OK && res.Status == wire.StatusOK {
				t.Errorf("3 s after the connection of the first ended, whose grace is 60 s, its path is given to another: %+v", res)
			}
			first.session = &wire.Session{ID: first.session.ID, Epoch: 2, Window: first.session.Window}
			res := first.startBound(r.next.Add(1), &wire.Request{Op: wire.OpRenew, Owner: "svc", TTLMillis: 3_600_000, Domains: []string{"h:/n"}}, 60_000).get(t, "renew")
			if res.Code != wire.OK || res.Status != wire.StatusOK {
				t.Errorf("it is back within its grace, and is answered %+v", res)
			}
		})
	}
}
