package replica

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestOwesWhatIsSettled: as TestPartOfARelease, but the client has the answer of the acquire when it asks for the
// release again, and says so (settled), as a client does: and one of two replicas writes a checkpoint meanwhile. Both
// have to decide alike: that it stays, for there is no telling any more what the acquire took.
func TestOwesWhatIsSettled(t *testing.T) {
	const here, there = "h:/a/here", "h:/a/there"
	var owner [2]string
	for replica := range owner {
		b := newBare(t, rows.FirstLog, DefaultLimits())
		s := bareSession(1)
		give := func(paths ...string) *wire.Request {
			req := &wire.Request{Op: wire.OpRelease, Owner: "o"}
			for _, p := range paths {
				req.Releases = append(req.Releases, wire.ReleaseRequest{Path: p})
			}
			return req
		}
		if res := b.part(bareAsk(s, 11, give(here)), "h:/a"); res.Code != wire.OK {
			t.Fatalf("%+v", res)
		}
		s = later(s)
		if res := b.one(bareAsk(s, 10, write("o", there, time.Hour))); res.Code != wire.OK ||
			res.Status != wire.StatusOK {
			t.Fatalf("%+v", res)
		}
		// The release, asked again, was answered UNAVAILABLE (another session's requests fill the group); the client
		// goes on.
		next := bareAsk(s, 12, write("o", "h:/a/else", time.Hour))
		next.Settled = 11 // it has the answers to all below
		if res := b.one(next); res.Code != wire.OK || res.Status != wire.StatusOK {
			t.Fatalf("%+v", res)
		}
		if replica == 1 {
			if err := b.m.Checkpoint(false); err != nil { // as every few seconds, on each replica for itself
				t.Fatal(err)
			}
		}
		again := bareAsk(s, 11, give(here, there))
		again.Settled = 11
		if res := b.one(again); res.Code != wire.OK {
			t.Fatalf("%+v", res)
		}
		owner[replica] = b.m.View(0).Inspect("h:/a", there).Owner
	}
	if owner[0] != owner[1] {
		t.Errorf("the replicas differ: %s is held by %q on one, by %q on the one that wrote a checkpoint", there,
			owner[0], owner[1])
	}
}

// TestTakenBackBySettled: a client that lies (a release that names an acquire of a higher id) must not make replicas
// differ.
func TestTakenBackBySettled(t *testing.T) {
	var owner [2]string
	for replica := range owner {
		b := newBare(t, rows.FirstLog, DefaultLimits())
		s := bareSession(1)
		if res := b.one(bareAsk(s, 30, write("o", "h:/a/y", time.Hour))); res.Code != wire.OK {
			t.Fatalf("%+v", res)
		}
		lie := release("o", "h:/a/z")
		lie.Target = 20
		if res := b.one(bareAsk(s, 5, lie)); res.Code != wire.OK {
			t.Fatalf("%+v", res)
		}
		next := bareAsk(s, 31, write("o", "h:/a/else", time.Hour))
		next.Settled = 10
		b.one(next)
		if replica == 1 {
			if err := b.m.Checkpoint(false); err != nil {
				t.Fatal(err)
			}
		}
		b.one(bareAsk(s, 20, write("o", "h:/a/x", time.Hour)))
		owner[replica] = b.m.View(0).Inspect("h:/a", "h:/a/x").Owner
	}
	if owner[0] != owner[1] {
		t.Errorf("the replicas differ: h:/a/x is held by %q on one, by %q on the one that wrote a checkpoint",
			owner[0], owner[1])
	}
}
