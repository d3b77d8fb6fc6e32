package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestTurnsAreYielded: a node's way to the leaders takes 0.2 s, so a keyed release_all takes a bit under 2.5 s there,
// and request_timeout_ms leaves it time enough. An attempt that took as long told so, got its turn, and its node died.
// A client asks at the slow node, and again with the key whenever it is answered DEADLINE_EXCEEDED. A call of its that
// gets the turn with no time left to go on leaves it to the next one.
func TestTurnsAreYielded(t *testing.T) {
	for name, died := range map[string]bool{"alone": false, "behind one that died": true} {
		t.Run(name, func(t *testing.T) {
			f := apart(t, func(_ int, c *Config) { c.RequestTimeout = 2650 * time.Millisecond })
			near, far := f.rigOn(0), f.rigOn(1)
			other := near.session()
			for _, ns := range near.apart("h", 4) {
				other.must(write("o", ns+"/x", time.Hour))
			}
			slows(t, f.nodes[1], f.nodes[0], 200*time.Millisecond)
			req := &wire.Request{Op: wire.OpReleaseAll, Owner: "o", Key: "k"}
			if died {
				// The first look of a call of the slow node comes to the claim after 1 s.
				first := steps{n: near.node, req: req, since: near.node.clock.Mono(), took: 2400 * time.Millisecond}
				first.c = &wire.Call{Op: req.Op, ID: near.next.Add(1), Session: near.session().session}
				present, _, err := first.present()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := first.claim(groupList(present)); err != nil {
					t.Fatal(err)
				}
				again := first // it looks again, and tells how long it took
				if _, err := again.claim(nil); err != nil {
					t.Fatal(err)
				}
			}
			began := time.Now()
			for i := 1; ; i++ {
				at := time.Now()
				res := far.session().start(far.next.Add(1), req).get(t, "it")
				t.Logf("%d: %v %s after %v", i, res.Code, res.Message, time.Since(at))
				if res.Code == wire.OK {
					break
				}
				if time.Since(began) > 40*time.Second {
					t.Fatalf("nobody is answered OK for %v: %d calls", time.Since(began), i)
				}
			}
		})
	}
}
