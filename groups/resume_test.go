package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestCopyLeftBehind: a request about an owner that was asked again on a later connection,
// and answered, is not carried out by the copy that the earlier connection left behind, which
// looks for what to do only now.
func TestCopyLeftBehind(t *testing.T) {
	r := newRig(t, nil)
	holder := r.session()
	for _, req := range []*wire.Request{
		{Op: wire.OpForceRelease, Owner: "o"},
		{Op: wire.OpReleaseAll, Owner: "o"},
		{Op: wire.OpReleaseAll, Owner: "o", Domains: []string{"h:/a"}},
	} {
		c := r.session()
		first := c.session
		c.session = &wire.Session{ID: first.ID, Epoch: 2, Window: first.Window}
		id := r.next.Add(1)
		if res := c.start(id, req).get(t, "the repeat"); res.Code != wire.OK {
			t.Fatalf("%v is answered %+v", req.Op, res)
		}
		token := holder.must(write("o", "h:/a/x", time.Hour)).Token
		c.session = first
		if res := c.start(id, req).get(t, "the copy"); res.Code != wire.Aborted {
			t.Errorf("the copy of %v is answered %+v", req.Op, res)
		}
		if res := holder.must(write("o", "h:/a/x", time.Hour)); res.Token != token {
			t.Errorf("%v ended a lock that was taken after it was answered", req.Op)
		}
		holder.must(&wire.Request{Op: wire.OpReleaseAll, Owner: "o"})
	}
}

// TestRenewBesideAFullLog: a client that comes back renews its lock though another log, with
// which neither it nor its owner has anything to do, remembers as many sessions as it may.
func TestRenewBesideAFullLog(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	here, there := r.inLogs(func(i int) string { return fmt.Sprintf("h:/a%d", i) },
		func(i int) string { return fmt.Sprintf("h:/b%d", i) })
	m := r.node.logOf(r.node.groupOf(there)).local.Load()
	m.Lock()
	m.Limits.MaxSessions = 3
	m.Unlock()
	for i := range 3 {
		r.session().must(write(fmt.Sprint("other", i), fmt.Sprintf("%s/x%d", there, i), time.Hour))
	}
	c := r.session()
	token := c.must(write("o", here+"/x", time.Hour)).Token
	c.must(&wire.Request{Op: wire.OpRenew, Owner: "o", TTLMillis: 1000}) // on its first connection it may
	c.session = &wire.Session{ID: c.session.ID, Epoch: 2, Window: 256}
	for _, req := range []*wire.Request{
		{Op: wire.OpRenew, Owner: "o", TTLMillis: 3_600_000, Flags: wire.FlagBind},
		{Op: wire.OpBind, Owner: "o", TTLMillis: 3_600_000, GraceMillis: 1000},
	} {
		if res := c.ask(req); res.Code != wire.OK || res.Status != wire.StatusOK {
			t.Errorf("%v on the next connection is answered %v %q", req.Op, res.Code, res.Message)
		}
	}
	time.Sleep(1500 * time.Millisecond)
	if res := r.session().ask(write("thief", here+"/x", time.Hour)); res.Status == wire.StatusOK {
		t.Errorf("the lock of token %d went to another owner, token %d", token, res.Token)
	}
}

// TestRenewBesideAStuckLog: a client that comes back renews its lock though another log, with
// which it has nothing to do and which can be read, carries nothing out.
func TestRenewBesideAStuckLog(t *testing.T) {
	r := newRig(t, func(c *Config) { c.RequestTimeout = 3 * time.Second })
	here, there := r.inLogs(func(i int) string { return fmt.Sprintf("h:/a%d", i) },
		func(i int) string { return fmt.Sprintf("h:/b%d", i) })
	c := r.session()
	c.must(write("o", here+"/x", time.Hour))
	stuck := r.node.logOf(r.node.groupOf(there))
	stuck.drive.Lock() // it proposes nothing
	defer func() { stuck.drive.Unlock(); stuck.kick() }()
	renew := &wire.Request{Op: wire.OpRenew, Owner: "o", TTLMillis: 3_600_000, Flags: wire.FlagBind}
	c.must(renew) // on its first connection it may
	c.session = &wire.Session{ID: c.session.ID, Epoch: 2, Window: 256}
	select {
	case res := <-c.start(r.next.Add(1), renew).done:
		if res.Code != wire.OK {
			t.Errorf("renew on the next connection is answered %v %q", res.Code, res.Message)
		}
	case <-time.After(2 * time.Second):
		t.Error("a renewal on the next connection waits for a log with which it has nothing to do")
	}
}

// TestCopyMeetsMove: nor is the copy carried out in the log to which the namespace that the request
// names has been moved since.
func TestCopyMeetsMove(t *testing.T) {
	r := newRig(t, nil)
	_, root := r.inLogs(func(i int) string { return fmt.Sprintf("h:/a%d", i) },
		func(i int) string { return fmt.Sprintf("h:/a%d/b", i) })
	c, holder := r.session(), r.session()
	first := c.session
	all := &wire.Request{Op: wire.OpReleaseAll, Owner: "o", Domains: []string{root}}
	c.session = &wire.Session{ID: first.ID, Epoch: 2, Window: first.Window}
	id := r.next.Add(1)
	if res := c.start(id, all).get(t, "the repeat"); res.Code != wire.OK {
		t.Fatalf("%+v", res)
	}
	holder.must(setPolicy(root, wire.RecursiveRW))
	token := holder.must(write("o", root+"/x", time.Hour)).Token
	c.session = first
	if res := c.start(id, all).get(t, "the copy"); res.Code != wire.Aborted {
		t.Errorf("the copy is answered %v %q", res.Code, res.Message)
	}
	if res := holder.must(write("o", root+"/x", time.Hour)); res.Token != token {
		t.Errorf("it ended a lock that was taken after it was answered")
	}
}

// TestNewOnALaterConnection: what was not asked on an earlier connection, and names its domains, does not
// wait for a log that it has nothing to do with; a repeat does.
func TestNewOnALaterConnection(t *testing.T) {
	t.Parallel()
	h := newHalted(t, 2*time.Second)
	c := h.session()
	asked := h.next.Add(1)
	c.session = &wire.Session{ID: c.session.ID, Epoch: 2, First: h.next.Add(1), Window: 256}
	all := func(id uint64) wire.Result {
		req := &wire.Request{Op: wire.OpReleaseAll, Owner: "o", Domains: []string{c.namespaceOf(h.other)}}
		return c.start(id, req).get(t, "release_all")
	}
	c.must(write("o", h.other, time.Hour))
	if res := all(h.next.Add(1)); res.Code != wire.OK {
		t.Errorf("a new request is answered %v %q", res.Code, res.Message)
	}
	if owner := c.inspect(h.other).Owner; owner != "" {
		t.Errorf("it is held by %q", owner)
	}
	if res := all(asked); res.Code != wire.Unavailable {
		t.Errorf("a repeat is answered %v %q", res.Code, res.Message)
	}
}

// TestCopyOfABind: nor does the copy of a bind tie to the connection that is gone what another session
// of its owner took since.
func TestCopyOfABind(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c, holder := r.session(), r.session()
	first := c.session
	bind := &wire.Request{Op: wire.OpBind, Owner: "o", GraceMillis: 100, Flags: wire.FlagBind}
	c.session = &wire.Session{ID: first.ID, Epoch: 2, Window: first.Window}
	id := r.next.Add(1)
	if res := c.start(id, bind).get(t, "the repeat"); res.Code != wire.OK {
		t.Fatalf("%+v", res)
	}
	token := holder.must(write("o", "h:/a/x", time.Hour)).Token
	c.session = first
	if res := c.start(id, bind).get(t, "the copy"); res.Code != wire.Aborted {
		t.Errorf("the copy is answered %v %q", res.Code, res.Message)
	}
	r.node.Closed(first, true, false)
	time.Sleep(5 * pause) // the grace is 100 ms
	if res := holder.must(write("o", "h:/a/x", time.Hour)); res.Token != token {
		t.Error("a lock that was taken after the repeat was answered ended with the connection of the copy")
	}
}
