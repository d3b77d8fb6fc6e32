package groups

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/raft"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// briefKeys has answers to keys kept for half a second instead of 300 s.
func briefKeys(c *Config) {
	c.stated = func(l *replica.Limits) { l.KeptMillis = 500 }
	c.seams = &seams{tasks: goroutines{}, process: newIncarnation(), raft: func(n *Node) raft.Host {
		d, err := n.newDragon(filepath.Join(n.cfg.DataDir, "raft"))
		if err != nil {
			panic(err)
		}
		return d
	}}
}

// TestIDOutlivesKey: a session asks for the end of all that an owner has, with a key, is answered, and the answer is
// lost with the connection. It goes on, and asks again under the same id when the time of the key is over (300 s; here
// half a second). Its id tells the repeat all the same (0006: "Clients: the answers of each session ... until the
// client has them"; PROTOCOL.md: "a request needs no idempotency_key for its own session"), as it does without a key.
func TestIDOutlivesKey(t *testing.T) {
	for name, op := range map[string]wire.Op{"release_all": wire.OpReleaseAll, "force_release": wire.OpForceRelease} {
		for _, key := range []string{"", "k"} {
			t.Run(name+" with key "+key, func(t *testing.T) {
				r := newRig(t, briefKeys)
				ns := r.apart("h", 2)
				c, other := r.session(), r.session()
				c.must(write("o", ns[0]+"/x", time.Hour))
				id := r.next.Add(1)
				req := func() *wire.Request { return &wire.Request{Op: op, Owner: "o", Key: key} }
				if res := c.start(id, req()).get(t, "the first"); res.Code != wire.OK {
					t.Fatalf("%+v", res)
				}
				took := other.must(write("o", ns[1]+"/x", time.Hour))
				r.clock.hurry(time.Second) // the key is over, the session is not
				r.nextConnection(c)
				res := c.start(id, req()).get(t, "the same id again")
				if owner := other.inspect(ns[1] + "/x").Owner; owner != "o" {
					t.Errorf("the repeat is answered %v, and took away what was taken with token %d after the first "+
						"was answered: held by %q",
						res.Code, took.Token, owner)
				}
			})
		}
	}
}

// TestOneKeyOfTwoOperations: the scope of a key is its operation. Two claims that begin in the same millisecond have
// parts of the same key.
func TestOneKeyOfTwoOperations(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	same := "" // an owner who is looked after where "o" is
	for i := 0; same == ""; i++ {
		if name := string(rune('a'+i%26)) + string(rune('a'+i/26)); wire.HomeOf(name,
			r.node.cfg.GroupCount) == wire.HomeOf("o", r.node.cfg.GroupCount) {
			same = name
		}
	}
	r.clock.freeze()
	defer r.clock.run()
	for _, o := range []string{"o", same} {
		c.must(&wire.Request{Op: wire.OpSetWaitEdge, Owner: o, Blocker: o, TTLMillis: 3_600_000})
	}
	c.must(&wire.Request{Op: wire.OpRelease, Owner: "o", Key: "k", DelWait: true,
		Releases: []wire.ReleaseRequest{{Path: "h:/a/x"}}})
	c.must(&wire.Request{Op: wire.OpReleaseAll, Owner: same, Key: "k", DelWait: true})
	for _, o := range []string{"o", same} {
		c.must(write(o, "h:/alive/"+o, time.Hour)) // else its edge would not count
		if res := c.must(&wire.Request{Op: wire.OpDetectCycle, Owner: o, Depth: 1}); res.Cycle != wire.CycleNone {
			t.Errorf("%s has its wait edge still: %+v", o, res)
		}
	}
}
