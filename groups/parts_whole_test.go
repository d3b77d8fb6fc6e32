package groups

import (
	"bytes"
	"testing"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestPartsThenWhole: a release of paths in two namespaces is carried out in parts; then one of the namespaces is given up,
// so that its repeat is one command, under the same id. What was answered to that is remembered beside the parts, by a
// replica that was restarted too: the next repeat takes away nothing that was taken since.
func TestPartsThenWhole(t *testing.T) {
	const ns = "h:/a"
	both := wire.Request{Op: wire.OpRelease, Owner: "o", Releases: []wire.ReleaseRequest{{Path: "h:/a/x"}, {Path: "h:/a/b/y"}}}
	s, other := bareSession(1), bareSession(2)
	var owners [2]string
	for replica := range owners {
		b := newBare(t, firstLogShard, defaultLimits())
		in := func(a *bareCall, sub uint64) wire.Result { // as bare.one, but a part of a call
			t.Helper()
			b.now++
			var w batchWriter
			w.reset()
			p := &part{
				call: &a.Call, log: b.m.driver, op: a.Op, nargs: a.NArgs, body: a.Body, session: a.Session, id: a.ID,
				nsLen: len(ns), sub: sub,
			}
			w.add(p)
			b.number++
			head := batchHead{format: rows.NewestFormat, office: b.own, number: b.number, next: true, stamp: b.now, wall: b.now}
			b.m.driver.mu.flights[b.number] = &flight{office: b.own, number: b.number, parts: []*part{p}}
			b.entry(bytes.Clone(w.entry(&head)))
			return a.res[0]
		}
		b.one(bareAsk(other, 1, write("o", "h:/a/x", time.Hour)))
		// The first time, in parts (steps.release): this is the one in h:/a.
		if res := in(bareAsk(s, 7, release("o", "h:/a/x")), xxh3.HashString(ns)>>2|1<<63); res.Code != wire.OK {
			t.Fatalf("%+v", res)
		}
		// Asked again on the next connection, when all is in h:/a.
		if res := b.one(bareAsk(later(s), 7, &both)); res.Code != wire.OK {
			t.Fatalf("%+v", res)
		}
		if replica == 1 { // it is started anew
			b.reload()
		}
		// Another client of the owner takes the path; then the first one asks once more, as that answer was lost too.
		b.one(bareAsk(other, 2, write("o", "h:/a/x", time.Hour)))
		if res := b.one(bareAsk(later(later(s)), 7, &both)); res.Code != wire.OK {
			t.Fatalf("%+v", res)
		}
		owners[replica] = b.m.view(0).Inspect(ns, "h:/a/x").Owner
	}
	if owners[0] != owners[1] {
		t.Errorf("after the same entries h:/a/x is held by %q on one replica, and by %q on one that was restarted", owners[0], owners[1])
	}
	if owners[0] != "o" {
		t.Errorf("the release is carried out anew by a repeat of what was answered: h:/a/x is held by %q", owners[0])
	}
}
