package replica

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// part is one, but of a part of a call, about the paths in a namespace.
func (b *bare) part(a *bareCall, ns string) wire.Result {
	b.t.Helper()
	a.ns, a.sub = ns, SubOf(ns)
	return b.one(a)
}

// TestPartsThenWhole: of a release of paths in two namespaces one part is carried out; then its namespace is given up,
// so that the repeat is one command, under the same id. What was answered to that is remembered beside the parts, by a
// replica that was restarted too: the next repeat takes away nothing that was taken since.
func TestPartsThenWhole(t *testing.T) {
	const ns = "h:/a"
	both := wire.Request{Op: wire.OpRelease, Owner: "o", Releases: []wire.ReleaseRequest{{Path: "h:/a/x"},
		{Path: "h:/a/b/y"}}}
	s, other := bareSession(1), bareSession(2)
	var owners [2]string
	for replica := range owners {
		b := newBare(t, rows.FirstLog, DefaultLimits())
		b.one(bareAsk(other, 1, write("o", "h:/a/x", time.Hour)))
		// The first time, in parts (steps.release): this is the one in h:/a/b; that in h:/a came to nothing.
		if res := b.part(bareAsk(s, 7, release("o", "h:/a/b/y")), "h:/a/b"); res.Code != wire.OK {
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
		owners[replica] = b.m.View(0).Inspect(ns, "h:/a/x").Owner
	}
	if owners[0] != owners[1] {
		t.Errorf("after the same entries h:/a/x is held by %q on one replica, and by %q on one that was restarted",
			owners[0], owners[1])
	}
	if owners[0] != "o" {
		t.Errorf("the release is carried out anew by a repeat of what was answered: h:/a/x is held by %q", owners[0])
	}
}

// TestTakenBetween: a release is carried out as a whole and asked again in parts, or the other way round, as one of its
// paths is in another namespace by then. What was taken in between is not given away, by a replica that was restarted
// either.
func TestTakenBetween(t *testing.T) {
	const ns = "h:/a"
	both := *release("o", "h:/a/x")
	both.Releases = append(both.Releases, wire.ReleaseRequest{Path: "h:/a/b/y"})
	ways := map[string]func(b *bare, s *wire.Session, first bool) wire.Result{
		"whole, then parts": func(b *bare, s *wire.Session, first bool) wire.Result {
			if first {
				return b.one(bareAsk(s, 7, &both))
			}
			return b.part(bareAsk(s, 7, release("o", "h:/a/x")), ns)
		},
		"parts, then whole": func(b *bare, s *wire.Session, first bool) wire.Result {
			if first {
				return b.part(bareAsk(s, 7, release("o", "h:/a/x")), ns)
			}
			return b.one(bareAsk(s, 7, &both))
		},
	}
	for way, ask := range ways {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarted %v", way, restarted), func(t *testing.T) {
				b := newBare(t, rows.FirstLog, DefaultLimits())
				s, other := bareSession(1), bareSession(2)
				b.one(bareAsk(other, 1, write("o", "h:/a/x", time.Hour)))
				if res := ask(b, s, true); res.Code != wire.OK {
					t.Fatalf("%+v", res)
				}
				if owner := b.m.View(0).Inspect(ns, "h:/a/x").Owner; owner != "" {
					t.Fatalf("h:/a/x is held by %q", owner)
				}
				if restarted {
					b.reload()
				}
				b.one(bareAsk(other, 2, write("o", "h:/a/x", time.Hour)))
				for range 2 {
					s = later(s)
					if res := ask(b, s, false); res.Code != wire.OK {
						t.Errorf("the repeat is answered %+v", res)
					}
					if restarted {
						b.reload()
					}
					if owner := b.m.View(0).Inspect(ns, "h:/a/x").Owner; owner != "o" {
						t.Errorf("h:/a/x was taken in between, and is held by %q after the repeat", owner)
					}
				}
			})
		}
	}
}
