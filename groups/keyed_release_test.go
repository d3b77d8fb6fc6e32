package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestKeyedReleaseOverMoves: a keyed release of two paths is not carried out again when it took one
// namespace, and a policy made them two since, nor the other way round.
func TestKeyedReleaseOverMoves(t *testing.T) { onBoth(t, testKeyedReleaseOverMoves) }

func testKeyedReleaseOverMoves(t *testing.T, r *rig) {
	c := r.session()
	const here, there = "h:/a/x", "h:/a/b/y"
	parts, joins := setPolicy("h:/a/b", wire.RecursiveRW), deletePolicy("h:/a/b")
	for key, change := range map[string][2]*wire.Request{"splits": {joins, parts}, "joined": {parts, joins}} {
		c.must(change[0])
		c.must(write("o", here, time.Hour))
		c.must(write("o", there, time.Hour))
		let := func() {
			t.Helper()
			c.must(&wire.Request{Op: wire.OpRelease, Owner: "o", Key: key, Releases: []wire.ReleaseRequest{{Path: here},
				{Path: there}}})
		}
		kept := func(when, path string) {
			t.Helper()
			if owner := c.inspect(path).Owner; owner != "o" {
				t.Errorf("%s: %s the change a repeat lets go of %s, which was taken since", key, when, path)
			}
		}
		let()
		for _, path := range []string{here, there} {
			if owner := c.inspect(path).Owner; owner != "" {
				t.Fatalf("%s is held by %q", path, owner)
			}
		}
		c.must(write("o", here, time.Hour))
		let()
		kept("before", here)
		c.must(change[1])
		c.must(write("o", there, time.Hour))
		let()
		kept("after", here)
		kept("after", there)
		c.must(&wire.Request{Op: wire.OpReleaseAll, Owner: "o"})
	}
}

// TestKeyedReleaseGoesOn: one that was cut short before the change goes on with what is left of it:
// the path that it did not come to, and not the one that has moved.
func TestKeyedReleaseGoesOn(t *testing.T) {
	t.Parallel()
	h := newHalted(t, time.Second)
	h.l.pauses(false)
	sub := ""
	for i := 0; sub == ""; i++ {
		if ns := fmt.Sprint("h:/a/b", i); h.node.logOf(h.node.groupOf(ns)) != h.l {
			sub = ns
		}
	}
	key := h.homed(h.node.logOf(h.node.groupOf(sub)))
	here, there := h.in, sub+"/y"
	c := h.session()
	c.must(setPolicy(sub, wire.RecursiveRW))
	c.must(write("o", here, time.Hour))
	c.must(write("o", there, time.Hour))
	let := &wire.Request{Op: wire.OpRelease, Owner: "o", Key: key, Releases: []wire.ReleaseRequest{{Path: there},
		{Path: here}}}
	h.l.pauses(true)
	again := *let
	begun(t, c.start(h.next.Add(1), &again).get(t, "release"))
	h.l.pauses(false)
	if owner := c.inspect(there).Owner; owner != "" {
		t.Fatalf("%s is held by %q", there, owner)
	}
	c.must(deletePolicy(sub))
	c.must(write("o", there, time.Hour))
	c.must(let)
	if owner := c.inspect(here).Owner; owner != "" {
		t.Errorf("the path that was left is held by %q", owner)
	}
	if owner := c.inspect(there).Owner; owner != "o" {
		t.Errorf("the path that was free when it moved, and was taken since, is held by %q", owner)
	}
}
