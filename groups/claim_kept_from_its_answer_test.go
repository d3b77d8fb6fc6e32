package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestClaimIsKeptFromItsAnswer: the first answer to a key is kept for 300 s (PROTOCOL.md). A request with a key is cut short, as a
// log takes nothing; asked again with the key it is answered, late in the key's time. Asked once more, by another session and
// sooner after that answer than keys are kept, it is not carried out a second time.
func TestClaimIsKeptFromItsAnswer(t *testing.T) {
	const kept = 6 * time.Second
	for name, op := range map[string]wire.Op{"release_all": wire.OpReleaseAll, "force_release": wire.OpForceRelease, "release": wire.OpRelease} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *Config) { keysFor(int(kept.Milliseconds()))(c); c.RequestTimeout = time.Second })
			n := r.node
			lA := n.logOf(n.groupOf("h:/a"))
			away := ""
			for _, ns := range r.apart("h", 8) {
				if n.logOf(n.groupOf(ns)) != lA {
					away = ns
				}
			}
			lB := n.logOf(n.groupOf(away))
			here, there := "h:/a/x", away+"/y"
			homed := func(name string) string {
				for n.logOf(wire.HomeOf(name, n.cfg.GroupCount)) != lA {
					name += "o"
				}
				return name
			}
			owner, key := homed("o"), homed("k")
			other := r.session()
			other.must(write(owner, here, time.Hour))
			other.must(write(owner, there, time.Hour))
			req := func() *wire.Request {
				req := &wire.Request{Op: op, Owner: owner, Key: key}
				if op == wire.OpRelease {
					req.Releases = []wire.ReleaseRequest{{Path: here}, {Path: there}}
				}
				return req
			}
			lB.pauses(true)
			if res := r.session().start(r.next.Add(1), req()).get(t, "the first"); res.Code == wire.OK {
				t.Fatalf("%+v", res)
			}
			r.clock.hurry(4 * time.Second)
			lB.pauses(false)
			if res := r.session().start(r.next.Add(1), req()).get(t, "asked again"); res.Code != wire.OK {
				t.Fatalf("%+v", res)
			}
			answered := r.clock.Mono()
			took := other.must(write(owner, here, time.Hour))
			r.clock.hurry(2500 * time.Millisecond)
			res := r.session().start(r.next.Add(1), req()).get(t, "asked once more")
			since := r.clock.Mono() - answered
			if holder := other.inspect(here).Owner; holder != owner && since < kept {
				t.Errorf("%v after it was answered OK, with keys kept for %v, it is answered %v %s and took away what was taken with token %d since: held by %q",
					since, kept, res.Code, res.Message, took.Token, holder)
			}
		})
	}
}
