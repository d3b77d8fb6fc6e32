package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRepeatReachesNoFurther: what is about an owner, and was carried out and answered, is not carried out by
// its repeat where the owner came to since; neither on the next connection nor on the same one.
func TestRepeatReachesNoFurther(t *testing.T) { onBoth(t, testRepeatReachesNoFurther) }

func testRepeatReachesNoFurther(t *testing.T, r *rig) {
	var apart []string // of different groups
	seen := make(map[uint16]bool)
	for i := 0; len(apart) < 3; i++ {
		if ns := fmt.Sprintf("h:/b%d", i); !seen[r.node.groupOf(ns)] {
			seen[r.node.groupOf(ns)] = true
			apart = append(apart, ns)
		}
	}
	there := apart[2]
	for _, ask := range []*wire.Request{
		{Op: wire.OpForceRelease},
		{Op: wire.OpReleaseAll},
		{Op: wire.OpReleaseAll, DelWait: true},
		{Op: wire.OpReleaseAll, Domains: apart},
		{Op: wire.OpReleaseAll, Domains: []string{"h"}},
		{Op: wire.OpRequestRevoke},
	} {
		for had := range apart { // how many groups the owner is in at first
			for _, on := range []string{"the next connection", "the same connection"} {
				c, victim := r.session(), r.session()
				owner := fmt.Sprint("o", r.next.Add(1))
				for _, ns := range apart[:had] {
					victim.must(write(owner, ns+"/"+owner, time.Hour))
				}
				req := *ask
				req.Owner = owner
				id := r.next.Add(1)
				if res := c.start(id, &req).get(t, "it"); res.Code != wire.OK {
					t.Fatalf("%v is answered %+v", ask.Op, res)
				}
				token := victim.must(write(owner, there+"/"+owner, time.Hour)).Token
				same := on == "the same connection"
				if !same {
					first := c.session
					c.session = &wire.Session{ID: first.ID, Epoch: 2, Window: first.Window, First: r.next.Add(1)}
				}
				if res := c.startAs(id, &req, func(c *wire.Call) { c.Again = same }).get(t,
					"the repeat"); res.Code != wire.OK {
					t.Fatalf("the repeat of %v on %s is answered %+v", ask.Op, on, res)
				}
				if res := victim.must(write(owner, there+"/"+owner, time.Hour)); res.Token != token {
					t.Errorf("%v %q of an owner in %d groups: its repeat on %s ends a lock taken since", ask.Op,
						ask.Domains, had, on)
				}
				if res := victim.must(&wire.Request{Op: wire.OpRenew, Owner: owner, TTLMillis: 1000,
					Domains: []string{there}}); res.Flag {
					t.Errorf("%v of an owner in %d groups: its repeat on %s revokes a lock taken since",
						ask.Op, had, on)
				}
			}
		}
	}
}

// TestForgottenDoneIsRefused: nor where it is forgotten that it was carried out.
func TestForgottenDoneIsRefused(t *testing.T) {
	r := newRig(t, nil)
	c, victim := r.session(), r.session()
	id := r.next.Add(1)
	kill := &wire.Request{Op: wire.OpForceRelease, Owner: "o"}
	c.start(id, kill).get(t, "it")
	token := victim.must(write("o", "h:/a/x", time.Hour)).Token
	here, there := r.inLogs(func(i int) string { return fmt.Sprintf("h:/a%d", i) },
		func(i int) string { return fmt.Sprintf("h:/b%d", i) })
	for _, ns := range []string{here, there} {
		settles := func(c *wire.Call) { c.Settled = id + 1 }
		c.startAs(r.next.Add(1), write("other", ns+"/x", time.Hour), settles).get(t, "what settles it")
	}
	c.session = &wire.Session{ID: c.session.ID, Epoch: 2, Window: 256, First: r.next.Add(1)}
	if res := c.start(id, kill).get(t, "the repeat"); res.Code != wire.Forgotten {
		t.Errorf("the repeat is answered %v %q", res.Code, res.Message)
	}
	if res := victim.must(write("o", "h:/a/x", time.Hour)); res.Token != token {
		t.Error("it ended a lock that was taken since")
	}
}
