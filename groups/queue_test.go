package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestPromise6OrderSurvives restarts the node, and cuts its power, while a row of
// clients waits for one path: they are granted in the order in which they came,
// each once, whether they ask again or not.
func TestPromise6OrderSurvives(t *testing.T) {
	const waiters = 8
	r := newRig(t, nil)
	holder := r.session()
	holder.must(write("holder", "h:/q/x", time.Hour))
	var row []*waiter
	for i := range waiters {
		row = append(row, r.queue(i, "h:/q/x"))
	}
	for _, restart := range []func(){r.restart, r.powerLoss} {
		restart()
		// They come back in the opposite order, and keep their places.
		for i := len(row) - 1; i >= 0; i-- {
			row[i].c.session.Epoch++
			row[i].stand(i)
		}
	}
	r.session().must(release("holder", "h:/q/x"))
	served(t, row, "h:/q/x")
}

// TestHandOverInOneEntry says that a path is never seen free while somebody waits
// for it.
func TestHandOverInOneEntry(t *testing.T) {
	r := newRig(t, nil)
	a, b := r.session(), r.session()
	a.must(write("a", "h:/q/x", time.Hour))
	o := b.start(r.next.Add(1), waiting(write("b", "h:/q/x", time.Hour)))
	<-o.queued
	before := r.node.logs[r.node.homes[r.node.groupOf("h:/q")]].local.Load().AppliedIndex()
	a.must(release("a", "h:/q/x"))
	<-o.done
	if used := r.node.logs[r.node.homes[r.node.groupOf("h:/q")]].local.Load().AppliedIndex() - before; used != 1 {
		t.Fatalf("the hand-over took %d entries", used)
	}
}

// TestCancel ends waits: by the client, by a closed connection, with a grace.
func TestCancel(t *testing.T) { onBoth(t, testCancel) }

func testCancel(t *testing.T, r *rig) {
	a := r.session()
	a.must(write("a", "h:/q/x", time.Hour))
	wait := func(c *caller, flags wire.Flags) (uint64, *outcome) {
		id := r.next.Add(1)
		req := waiting(write("b", "h:/q/x", time.Hour))
		req.Flags |= flags
		o := c.start(id, req)
		<-o.queued
		return id, o
	}
	b := r.session()
	id, o := wait(b, 0)
	r.node.Cancel(b.session, id)
	if res := <-o.done; res.Code != wire.Cancelled {
		t.Fatalf("a cancelled wait: %+v", res)
	}
	_, o = wait(b, 0)
	r.node.Closed(b.session, false, false)
	if res := <-o.done; res.Code != wire.Cancelled {
		t.Fatalf("the wait of a closed connection: %+v", res)
	}
	b = r.session()
	id, _ = wait(b, wire.FlagBind)
	r.node.Closed(b.session, true, false)
	b.session = &wire.Session{ID: b.session.ID, Epoch: 2}
	again := b.start(id, o2req("b", "h:/q/x"))
	if res := <-again.queued; res.Position != 1 {
		t.Fatalf("back within the grace: %+v", res)
	}
	a.must(release("a", "h:/q/x"))
	if res := <-again.done; res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Fatalf("granted after coming back: %+v", res)
	}
}

// TestOrphans ends the waits of an earlier run whose clients do not come back: those
// that are in the state on disk, and those that only the log has.
func TestOrphans(t *testing.T) {
	for name, again := range map[string]func(*rig){"restart": (*rig).restart, "power loss": (*rig).powerLoss} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			r.session().must(write("a", "h:/q/x", time.Hour))
			<-r.session().start(r.next.Add(1), waiting(write("b", "h:/q/x", time.Hour))).queued
			again(r)
			look := r.session()
			waiters := func() uint64 { return look.must(&wire.Request{Op: wire.OpDescribe, Path: "h:/q/x"}).Count }
			if n := waiters(); n != 1 {
				t.Fatalf("%d waiters after a restart, not 1", n)
			}
			eventually(t, "the wait ends", func() bool { return waiters() == 0 })
		})
	}
}

func o2req(owner, path string) *wire.Request {
	req := waiting(write(owner, path, time.Hour))
	req.Flags |= wire.FlagBind
	return req
}

// TestTiedLeases says that a lease tied to a connection shrinks to its grace when
// that closes, and does not when a later connection has renewed it.
func TestTiedLeases(t *testing.T) { onBoth(t, testTiedLeases) }

func testTiedLeases(t *testing.T, r *rig) {
	c := r.session()
	tied := write("a", "h:/q/x", time.Hour)
	tied.Flags |= wire.FlagBind
	c.must(tied)
	free := write("b", "h:/q/y", time.Hour)
	c.must(free)
	kept := write("k", "h:/q/z", time.Hour)
	kept.Flags |= wire.FlagBind
	c.must(kept)
	first := *c.session
	c.session = &wire.Session{ID: first.ID, Epoch: 2}
	c.must(&wire.Request{Op: wire.OpRenew, Owner: "k", TTLMillis: 3_600_000, Domains: []string{"h:/q"},
		Flags: wire.FlagBind})
	r.node.Closed(&first, true, false)
	eventually(t, "the tied lease ends", func() bool { return !c.alive("a") })
	if !c.alive("b") || !c.alive("k") {
		t.Fatal("a lease that is not tied to the closed connection ended with it")
	}
}

// TestRepeats asks everything a second time, before and after a restart: the
// answers are the same and nothing is done twice.
func TestRepeats(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	type asked struct {
		id  uint64
		req *wire.Request
		res wire.Result
	}
	var all []asked
	do := func(req *wire.Request) wire.Result {
		a := asked{id: r.next.Add(1), req: req}
		a.res = <-c.start(a.id, req).done
		all = append(all, a)
		return a.res
	}
	do(write("a", "h:/r/1", time.Hour))
	do(&wire.Request{Op: wire.OpIncrToken})
	do(write("a", "h:/r/2", time.Hour))
	do(release("a", "h:/r/2"))
	do(write("b", "h:/r/2", time.Hour))
	do(&wire.Request{Op: wire.OpRelease, Owner: "a", Releases: []wire.ReleaseRequest{{Path: "h:/r/9"},
		{Path: "h:/s/9"}}})
	do(&wire.Request{Op: wire.OpSetPolicy, Namespace: "h:/p", Algorithm: wire.Semaphore})
	check := func(when string) {
		t.Helper()
		for _, a := range all {
			res := <-c.start(a.id, a.req).done
			want := a.res
			if a.req.Op == wire.OpAcquire && a.req.Owner == "a" && a.req.Locks[0].Path == "h:/r/2" {
				want = wire.Result{Status: wire.StatusLost, Reason: wire.ReasonMissingWrite, Path: "h:/r/2"}
			}
			if fmt.Sprint(res) != fmt.Sprint(want) {
				t.Errorf("%s: %v of %s again: %+v, was %+v", when, a.req.Op, a.req.Owner, res, want)
			}
		}
		if res := c.inspect("h:/r/2"); res.Owner != "b" {
			t.Errorf("%s: the repeated release let go what it must not: held by %q", when, res.Owner)
		}
	}
	check("at once")
	r.restart()
	c.session.Epoch++
	check("after a restart")
	r.powerLoss()
	c.session.Epoch++
	check("after a power loss")
	if res := c.must(&wire.Request{Op: wire.OpIncrToken}); res.Token != 2 {
		t.Errorf("the counter is at %d", res.Token)
	}
	res := <-c.start(all[0].id, write("a", "h:/r/other", time.Hour)).done
	if res.Code != wire.InvalidArgument {
		t.Errorf("another request under a used id: %+v", res)
	}
}
