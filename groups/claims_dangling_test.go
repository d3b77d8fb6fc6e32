package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestTurnOfACallThatIsOver: a node's way to the leaders takes 0.5 s. An attempt at a keyed release that took 3.4 s told
// so, got its turn (6.8 s), and its node died. A client asks at the slow node, and again with the key whenever it is
// answered DEADLINE_EXCEEDED. The last look of each call is under way when the time of the call is over: the log gives it
// the turn, its node hears of that too late and yields nothing, so the next call waits for a turn that nobody has.
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
	// The control: alone, the same request with another key is answered within its time.
	alone := *req
	alone.Key = "alone"
	at := time.Now()
	if res := far.session().start(far.next.Add(1), &alone).get(t, "alone"); res.Code != wire.OK {
		t.Fatalf("%+v", res)
	}
	t.Logf("alone it takes %v", time.Since(at))

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
		at := time.Now()
		res := far.session().start(far.next.Add(1), req).get(t, "it")
		t.Logf("%d: %v %s after %v", i, res.Code, res.Message, time.Since(at))
		if res.Code == wire.OK {
			break
		}
		if time.Since(began) > 30*time.Second {
			look := steps{n: near.node, req: req, since: near.node.clock.Mono(), routes: routes}
			look.c = &wire.Call{Op: req.Op, ID: near.next.Add(1), Session: near.session().session}
			c, err := look.claim(plan)
			for ; err == errSuperseded; c, err = look.claim(plan) {
				time.Sleep(20 * time.Millisecond)
			}
			t.Logf("the next attempt is number %d: %d turns were given to %d calls, none of which heard of it", c.attempt, c.attempt-3, i)
			t.Fatalf("nobody is answered OK for %v: %d calls, each of which has time enough", time.Since(began), i)
		}
	}
}

// TestPartOfACallThatIsOver: as TestTurnOfACallThatIsOver, and the attempt whose node died had carried a part out, in a
// group that everybody reaches all the time. The calls that wait for turns that nobody has keep the claim known, and not
// the part. When its time is over somebody gets through, and carries the part out a second time: what the owner took
// there since is gone.
func TestPartOfACallThatIsOver(t *testing.T) {
	const timeout, kept = 7200 * time.Millisecond, 18 * time.Second // as 120 s are to 300 s
	f := apart(t, func(i int, c *Config) {
		c.RequestTimeout = timeout
		if i == 0 {
			keysFor(int(kept.Milliseconds()))(c)
		}
	})
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
	c, err := first.claim(plan)
	if err != nil {
		t.Fatal(err)
	}
	path := req.Releases[0].Path
	ns := routes.Resolve(path)
	if err := first.all([]command{{group: near.node.groupOf(ns), ns: ns, sub: subOf(ns), req: &wire.Request{
		Op: wire.OpRelease, Owner: "o", Key: c.key, Releases: req.Releases[:1],
	}}}); err != nil {
		t.Fatal(err)
	}
	if owner := other.inspect(path).Owner; owner != "" {
		t.Fatal("it was not given back")
	}
	other.must(write("o", path, time.Hour))
	for began := time.Now(); time.Since(began) < kept+time.Second; {
		at := time.Now()
		res := far.session().start(far.next.Add(1), req).get(t, "it")
		t.Logf("%v %s after %v", res.Code, res.Message, time.Since(at))
		if res.Code == wire.OK {
			break
		}
	}
	for i := 0; ; i++ {
		res := near.session().start(near.next.Add(1), req).get(t, "the near one")
		t.Logf("the near one: %v %s", res.Code, res.Message)
		if res.Code == wire.OK || i > 3 {
			break
		}
	}
	if owner := other.inspect(path).Owner; owner != "o" {
		t.Errorf("a part was carried out twice: %s is held by %q", path, owner)
	}
}
