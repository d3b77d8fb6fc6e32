package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv8LeaveOverGrant: a wait is asked again on the next connection when its namespace has been moved to another group of the
// same log, and is granted there; then the old group is told to leave, ends the place of the earlier connection, and that answer is
// remembered over the grant. So the next repeat is told ABORTED while the lock is held: PROTOCOL section 3, the server "answers the
// rest as it did before", "an acquire whose locks are gone answers LOST", and this one's are not gone; decision 0006 likewise.
func TestAdv8LeaveOverGrant(t *testing.T) {
	b := newBare(t, firstLogShard, defaultLimits())
	b.n.homes = []uint64{firstLogShard, firstLogShard} // two groups of one log
	b.n.id.GroupCount, b.n.cfg.GroupCount = 2, 2
	b.m.groups, b.m.order = make(map[uint16]*group), nil
	for _, number := range []uint16{0, 1} {
		g := &group{number: number, m: b.m}
		g.state = engine.New(b.m.engineConfig(), &fences{b.m.store, number, b.m.fail}, g)
		b.m.groups[number], b.m.order = g, append(b.m.order, g)
	}
	one := func(a *bareCall, number uint16, ns string, version uint64) *bareCall {
		t.Helper()
		b.now++
		var w batchWriter
		w.reset()
		p := &part{
			call: &a.Call, log: b.m.driver, group: number, op: a.Op, nargs: a.NArgs, body: a.Body, session: a.Session, id: a.ID,
			version: version, nsLen: len(ns),
		}
		if len(subjectOf(a.Req)) == 0 {
			p.nsLen = 0
		}
		if p.waits = a.Op == wire.OpAcquire && a.Req.Flags&wire.FlagWait != 0; p.waits {
			b.n.attach(p, new(repliers))
		}
		w.add(p)
		b.number++
		head := batchHead{format: rows.NewestFormat, office: b.own, number: b.number, next: true, stamp: b.now, wall: b.now}
		entry := append([]byte(nil), w.entry(&head)...)
		b.m.driver.mu.flights[b.number] = &flight{office: b.own, number: b.number, parts: []*part{p}}
		b.entry(entry)
		return a
	}
	const parent, root = "h:/a", "h:/a/b"
	s := bareSession(2)
	one(bareAsk(bareSession(1), 1, write("holder", parent+"/y", time.Hour)), 0, parent, 0)
	first := waiting(write("first", root+"/x", time.Hour)) // waits for both, so that who comes behind it waits too
	first.Locks = append(first.Locks, wire.LockRequest{Path: parent + "/y"})
	one(bareAsk(bareSession(3), 1, first), 0, parent, 0)
	req := waiting(write("o", root+"/x", time.Hour))
	if a := one(bareAsk(s, 7, req), 0, parent, 0); len(a.queued) != 1 {
		t.Fatalf("%+v", a)
	}

	// set_namespace_policy of h:/a/b, as policies.go carries it out.
	step := func(number uint16, r *wire.Request, ns string) {
		t.Helper()
		r.Namespace, r.Attempt, r.Target = root, 1, 1
		cmd := engine.Command{Req: r, NS: ns, Version: 1}
		b.m.mu.Lock()
		defer b.m.mu.Unlock()
		b.m.out.Reset()
		b.m.told = 0
		clock := engine.Clock{Now: b.now, Wall: b.now}
		if res := b.m.groups[number].apply(clock, &cmd); res.Code != wire.OK || res.Status != wire.StatusOK {
			t.Fatalf("%v is answered %+v", r.Op, res)
		}
		b.m.answers(clock)
		b.m.groups[number].stepped()
	}
	step(1, &wire.Request{Op: wire.OpFreeze}, "")
	step(0, &wire.Request{Op: wire.OpFreeze}, parent)
	step(1, &wire.Request{Op: wire.OpOpen, Token: 100, Explicit: true}, root)
	// Here it is committed: the routes have changed. The connection broke, and the client comes back and asks again.
	s = later(s)
	a := one(bareAsk(s, 7, req), 1, root, 1)
	if len(a.res) != 1 || a.res[0].Code != wire.OK || a.res[0].Status != wire.StatusOK {
		t.Skipf("it is not granted in its new namespace: %+v", a.res)
	}
	step(1, &wire.Request{Op: wire.OpLeave}, "")
	step(0, &wire.Request{Op: wire.OpLeave}, "")
	// The answer was lost with that connection.
	s = later(s)
	again := one(bareAsk(s, 7, req), 1, root, 1)
	owner := b.m.view(1).Inspect(root, root+"/x").Owner
	if len(again.res) != 1 {
		t.Fatalf("the repeat is not answered: %+v", again)
	}
	if res := again.res[0]; owner == "o" && (res.Code != wire.OK || res.Status != wire.StatusOK || res.Token != a.res[0].Token) {
		t.Errorf("it was granted with token %d and is held, and its repeat is answered %v %q", a.res[0].Token, res.Code, res.Message)
	}
}
