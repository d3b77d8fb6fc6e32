package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestTurnOfACallThatIsOver: a node's way to the leaders takes 0.5 s. An attempt at a keyed release that took 3.4 s
// told so, got its turn (6.8 s), and its node died. A client asks at the slow node, and again with the key whenever it
// is answered DEADLINE_EXCEEDED. When the last look of a call is under way as its time is over, it may have the turn
// without hearing of it. That turn ends with it, and the next call does not wait for it.
func TestTurnOfACallThatIsOver(t *testing.T) {
	const timeout = 7200 * time.Millisecond
	f := apart(t, func(_ int, c *Config) { c.RequestTimeout = timeout })
	near, far := f.rigOn(0), f.rigOn(1)
	other := near.session()
	req := &wire.Request{Op: wire.OpRelease, Owner: "o", Key: "k"}
	for _, ns := range near.apart("h", 4) {
		other.must(write("o", ns+"/x", time.Hour))
		req.Releases = append(req.Releases, wire.ReleaseRequest{Path: ns + "/x"})
	}
	slows(t, f.nodes[1], f.nodes[0], 500*time.Millisecond)

	routes := near.node.routes.Load()
	first := steps{n: near.node, req: req, since: near.node.clock.Mono(), routes: routes}
	first.c = &wire.Call{Op: req.Op, ID: near.next.Add(1), Session: near.session().session}
	var plan []byte
	for _, rel := range req.Releases {
		plan = appendNS(plan, routes.Resolve(rel.Path))
	}
	if _, err := first.claim(plan); err != nil {
		t.Fatal(err)
	}
	first.took = 3400 * time.Millisecond
	if _, err := first.claim(plan); err != nil { // it looks again, and tells how long it took; its node dies
		t.Fatal(err)
	}
	began := time.Now()
	for i := 1; ; i++ {
		res := far.session().start(far.next.Add(1), req).get(t, "it")
		if res.Code == wire.OK {
			break
		}
		if time.Since(began) > 30*time.Second {
			t.Fatalf("nobody is answered OK for %v: %d calls, each of which has time enough", time.Since(began), i)
		}
	}
}
