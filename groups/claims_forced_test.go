package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestForcedByOlderRoutes: as TestAttemptByOlderRoutes, of a keyed force_release, with a move that has nothing to do
// with it. Its forwarded claim was made by the routes of before, another node's attempt by later ones. The node knows
// these when it hears that its claim is refused for them, and goes on at once.
func TestForcedByOlderRoutes(t *testing.T) {
	clock := &testClock{start: time.Now()}
	f := apart(t, func(_ int, c *Config) { c.Clock, c.RequestTimeout = clock, 8*time.Second })
	near, far := f.rigOn(0), f.rigOn(1)
	n := f.nodes[0]
	other := near.session()
	other.must(write("o", "h:/a/x", time.Hour))
	req := &wire.Request{Op: wire.OpForceRelease, Owner: "o", Key: "k"}

	l := f.nodes[1].logOf(wire.HomeOf("k", n.cfg.GroupCount))
	l.drive.Lock() // its way to the leader stands still
	forwarded := far.session().start(far.next.Add(1), req)
	queues(t, "its claim is queued", l)
	other.must(setPolicy("else:/b/c", wire.RecursiveRW))
	// as with any read of an owner that is asked there
	if err := f.nodes[1].learnRoutes(f.nodes[1].clock.Mono()); err != nil {
		t.Error(err)
	}
	// another one has begun it and got no further, as its node died
	begun := steps{n: n, req: req, since: n.clock.Mono()}
	begun.c = &wire.Call{Op: req.Op, ID: near.next.Add(1), Session: near.session().session}
	if _, err := begun.claim(groupList([]uint16{n.groupOf("h:/a")})); err != nil {
		t.Error(err)
	}
	clock.hurry(600 * time.Millisecond) // its turn is over
	l.drive.Unlock()
	l.kick()
	began := time.Now()
	res := forwarded.get(t, "the forwarded one")
	if d := time.Since(began); res.Code != wire.OK || d > 4*time.Second {
		t.Errorf("the forwarded one is answered %v %s after %v", res.Code, res.Message, d)
	}
}
