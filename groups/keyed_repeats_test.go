package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// keysFor has answers to keys kept for so long.
func keysFor(millis int) func(*Config) {
	return func(c *Config) {
		briefKeys(c)
		c.seams.limits = func(l *limits) { l.KeptMillis = millis }
	}
}

// again has the session go on, on its next connection.
func (r *rig) nextConnection(c *caller) {
	before := c.session
	c.session = &wire.Session{ID: before.ID, Epoch: before.Epoch + 1, Window: before.Window, First: r.next.Add(1)}
	r.node.Closed(before, false, true)
}

// TestSplitReleaseOutlivesKey: a session gives two paths back, with a key, and is answered; the answer is lost with its connection. One
// of them comes to a namespace of its own. When the time of the key is over the session asks again under the same id: that
// was carried out, and what was taken since stays.
func TestSplitReleaseOutlivesKey(t *testing.T) {
	for _, by := range []string{"itself", "another"} {
		t.Run(by, func(t *testing.T) {
			r := newRig(t, keysFor(500))
			c, other := r.session(), r.session()
			nested := nestedBelow(r.node, "h:/a", r.node.logOf(r.node.groupOf("h:/a")))
			here, there := "h:/a/x", nested+"/y"
			other.must(write("o", here, time.Hour))
			other.must(write("o", there, time.Hour))
			req := func() *wire.Request {
				return &wire.Request{Op: wire.OpRelease, Owner: "o", Key: "k", Releases: []wire.ReleaseRequest{{Path: here}, {Path: there}}}
			}
			if by == "another" {
				other.must(req())
			}
			id := r.next.Add(1)
			if res := c.start(id, req()).get(t, "the first"); res.Code != wire.OK {
				t.Fatalf("%+v", res)
			}
			other.must(setPolicy(nested, wire.RecursiveRW))
			took := other.must(write("o", there, time.Hour))
			r.clock.hurry(time.Second) // the key is over, the session is not
			r.nextConnection(c)
			res := c.start(id, req()).get(t, "the same id again")
			if owner := other.inspect(there).Owner; owner != "o" {
				t.Errorf("the repeat is answered %v, and took away what was taken with token %d since: held by %q", res.Code, took.Token, owner)
			}
		})
	}
}

// TestKeyEndsUnderWay: a release_all with a key was cut short. It is asked again with its key, by another session, in the time of the
// key, and its claim says to go on. What it was carried out on it is not carried out on again, if the key's time ends then.
func TestKeyEndsUnderWay(t *testing.T) {
	r := newRig(t, func(c *Config) { keysFor(6000)(c); c.RequestTimeout = 20 * time.Second })
	n := r.node
	lA := n.logOf(n.groupOf("h:/a"))
	away := nestedBelow(n, "h:/c", lA)
	lB := n.logOf(n.groupOf(away))
	here, there := "h:/a/x", away+"/y"
	key := ""
	for i := 0; key == ""; i++ {
		if k := fmt.Sprint("k", i); n.logOf(wire.HomeOf(k, n.cfg.GroupCount)) == lB {
			key = k
		}
	}
	c, second, other := r.session(), r.session(), r.session()
	other.must(setPolicy(away, wire.RecursiveRW))
	other.must(write("o", here, time.Hour))
	other.must(write("o", there, time.Hour))
	req := func() *wire.Request { return &wire.Request{Op: wire.OpReleaseAll, Owner: "o", Key: key} }
	// cut short: its claim is there, and what it did in A; of B nobody heard.
	s := steps{n: n, req: req(), since: n.clock.Mono()}
	call := &wire.Call{Op: wire.OpReleaseAll, ID: r.next.Add(1), Session: c.session}
	s.c = call
	if err := s.caughtUp(); err != nil {
		t.Fatal(err)
	}
	present, err := s.find("o")
	if err != nil || len(present) != 2 {
		t.Fatal(present, err)
	}
	cl, err := s.claim(groupList(present))
	if err != nil || cl.done {
		t.Fatal(cl, err)
	}
	g := n.groupOf("h:/a")
	if err := s.all([]command{{group: g, sub: uint64(g) + 1, req: &wire.Request{Op: wire.OpReleaseAll, Owner: "o", Key: cl.key}}}); err != nil {
		t.Fatal(err)
	}
	if owner := other.inspect(here).Owner; owner != "" {
		t.Fatalf("held by %q", owner)
	}
	other.must(write("o", here, time.Hour))
	r.clock.hurry(5 * time.Second) // of six
	lA.pauses(true)
	o := second.start(r.next.Add(1), req())
	eventually(t, "it is carried out in B", func() bool { return other.inspect(there).Owner == "" })
	r.clock.hurry(2 * time.Second)
	lA.pauses(false)
	res := o.get(t, "asked again")
	t.Logf("answered %v %s; held by %q", res.Code, res.Message, other.inspect(here).Owner)
	if owner := other.inspect(here).Owner; owner != "o" {
		t.Errorf("asked again in the key's time it took away what was taken since: %v", res.Code)
	}
}

// TestAnswerOfAKeyHangsOnAnotherLog: a release with a key is done. Its repeat is answered by the key, as it always was, whether or not
// the log that looks after its owner takes anything.
func TestAnswerOfAKeyHangsOnAnotherLog(t *testing.T) {
	r := newRig(t, func(c *Config) { c.RequestTimeout = time.Second })
	n := r.node
	lA := n.logOf(n.groupOf("h:/a"))
	key, owner := "", ""
	for i := 0; key == "" || owner == ""; i++ {
		k := fmt.Sprint("k", i)
		if l := n.logOf(wire.HomeOf(k, n.cfg.GroupCount)); l == lA {
			key = k
		} else {
			owner = k
		}
	}
	c, other := r.session(), r.session()
	other.must(write(owner, "h:/a/x", time.Hour))
	other.must(write(owner, "h:/a/y", time.Hour))
	req := func() *wire.Request {
		return &wire.Request{Op: wire.OpRelease, Owner: owner, Key: key, Releases: []wire.ReleaseRequest{{Path: "h:/a/x"}, {Path: "h:/a/y"}}}
	}
	l := n.logOf(wire.HomeOf(owner, n.cfg.GroupCount))
	l.pauses(true)
	defer l.pauses(false)
	if res := other.start(r.next.Add(1), req()).get(t, "the first"); res.Code != wire.OK {
		t.Fatalf("the first: %v %s", res.Code, res.Message)
	}
	if res := c.start(r.next.Add(1), req()).get(t, "its repeat by key"); res.Code != wire.OK {
		t.Errorf("the first was answered OK, its repeat: %v %s", res.Code, res.Message)
	}
}

// TestReleaseHangsOnAnotherLog: a release of two paths with a key is asked again, by its id, on the next connection. It is about one
// log, which looks after its key and its owner as well. That another log has no leader is no matter of it.
func TestReleaseHangsOnAnotherLog(t *testing.T) {
	var raft mute
	r := newRig(t, func(c *Config) { raft.into(c); c.RequestTimeout = time.Second })
	n := r.node
	lA := n.logOf(n.groupOf("h:/a"))
	name := ""
	for i := 0; name == ""; i++ {
		if k := fmt.Sprint("k", i); n.logOf(wire.HomeOf(k, n.cfg.GroupCount)) == lA {
			name = k
		}
	}
	l := n.logOf(n.groupOf(nestedBelow(n, "h:/c", lA)))
	c := r.session()
	c.must(write(name, "h:/a/x", time.Hour))
	c.must(write(name, "h:/a/y", time.Hour))
	raft.silent.Store(l.shard)
	for _, key := range []string{"", name} {
		req := func() *wire.Request {
			return &wire.Request{Op: wire.OpRelease, Owner: name, Key: key, Releases: []wire.ReleaseRequest{{Path: "h:/a/x"}, {Path: "h:/a/y"}}}
		}
		id := r.next.Add(1)
		if res := c.start(id, req()).get(t, "the first"); res.Code != wire.OK {
			t.Fatalf("key %q: the first: %v %s", key, res.Code, res.Message)
		}
		r.nextConnection(c)
		if res := c.start(id, req()).get(t, "the same id again"); res.Code != wire.OK {
			t.Errorf("key %q: the first was answered OK, the same id again: %v %s", key, res.Code, res.Message)
		}
	}
}
