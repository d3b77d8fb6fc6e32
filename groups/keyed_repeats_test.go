package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// keysFor has answers to keys kept for so long.
func keysFor(millis int) func(*Config) {
	return func(c *Config) {
		briefKeys(c)
		c.stated = func(l *replica.Limits) { l.KeptMillis = millis }
	}
}

// TestSplitReleaseOutlivesKey: a session gives two paths back, with a key, and is answered; the answer is lost with
// its connection. One of them comes to a namespace of its own. When the time of the key is over the session asks
// again under the same id: that was carried out, and what was taken since stays.
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
				return &wire.Request{Op: wire.OpRelease, Owner: "o", Key: "k",
					Releases: []wire.ReleaseRequest{{Path: here},
						{Path: there}}}
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
			if owner := other.inspect(there).Owner; res.Code != wire.OK || owner != "o" {
				t.Errorf("the repeat is answered %v, and took away what was taken with token %d since: held by %q",
					res.Code,
					took.Token, owner)
			}
		})
	}
}

// TestKeyEndsUnderWay: a release_all with a key was cut short. It is asked again with its key, by another session, in
// the time of the key, and its claim says to go on. What it was carried out on it is not carried out on again, if the
// key's time ends then.
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
	if err := s.all([]command{{group: g, sub: uint64(g) + 1, req: &wire.Request{Op: wire.OpReleaseAll, Owner: "o",
		Key: cl.key}}}); err != nil {
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
