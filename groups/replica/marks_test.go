package replica

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestComesTooLate: a session's acquire and its release come to their log in another order than the client sent them
// in. What comes too late changes nothing that the other has settled.
func TestComesTooLate(t *testing.T) {
	for _, paths := range []int{1, 2, MaxSessionMarks} {
		t.Run(fmt.Sprint(paths), func(t *testing.T) {
			b := newBare(t, rows.FirstLog, DefaultLimits())
			s := bareSession(1)
			take, give := write("o", "h:/a/p0", time.Hour), release("o", "h:/a/p0")
			for i := 1; i < paths; i++ {
				p := fmt.Sprint("h:/a/p", i)
				take.Locks, give.Releases = append(take.Locks, wire.LockRequest{Path: p}),
					append(give.Releases, wire.ReleaseRequest{Path: p})
			}
			holder := func() string { return b.m.View(0).Inspect("h:/a", "h:/a/p0").Owner }
			if res := b.one(bareAsk(s, 11, give)); res.Code != wire.OK {
				t.Fatalf("%+v", res)
			}
			b.reload()
			if res := b.one(bareAsk(s, 10, take)); res.Code != wire.Cancelled || holder() != "" {
				t.Errorf("an acquire behind a later release is answered %+v, and %q holds the path", res, holder())
			}
			other := write("o", "h:/a/else", time.Hour) // nobody has given that back
			if res := b.one(bareAsk(s, 9, other)); res.Code != wire.OK {
				t.Errorf("an acquire of another path is answered %+v", res)
			}
			if res := b.one(bareAsk(s, 21, take)); res.Code != wire.OK || res.Status != wire.StatusOK {
				t.Fatalf("%+v", res)
			}
			b.reload()
			if res := b.one(bareAsk(s, 20, give)); res.Code != wire.OK || holder() != "o" {
				t.Errorf("a release behind a later acquire is answered %+v, and %q holds the path", res, holder())
			}
			if res := b.one(bareAsk(s, 22, give)); res.Code != wire.OK || holder() != "" {
				t.Errorf("a release in order is answered %+v, and %q holds the path", res, holder())
			}
		})
	}
}

// TestTooLateTwice: a release may name a path twice.
func TestTooLateTwice(t *testing.T) {
	b := newBare(t, rows.FirstLog, DefaultLimits())
	s := bareSession(1)
	if res := b.one(bareAsk(s, 11, write("o", "h:/a/x", time.Hour))); res.Code != wire.OK ||
		res.Status != wire.StatusOK {
		t.Fatalf("%+v", res)
	}
	give := release("o", "h:/a/x")
	give.Releases = append(give.Releases, give.Releases[0])
	if res := b.one(bareAsk(s, 10, give)); res.Code != wire.OK {
		t.Fatalf("%+v", res)
	}
	if owner := b.m.View(0).Inspect("h:/a", "h:/a/x").Owner; owner != "o" {
		t.Errorf("%q holds what a later acquire took", owner)
	}
}

// TestPartOfARelease: a part of a release was carried out, and not the acquire before it. Asked again, both are about
// one namespace: what the acquire takes now is given back, and what was given back already is not given back again.
func TestPartOfARelease(t *testing.T) {
	const here, there = "h:/a/here", "h:/a/there" // which was in another namespace when the release was asked first
	b := newBare(t, rows.FirstLog, DefaultLimits())
	s := bareSession(1)
	holder := func(path string) string { return b.m.View(0).Inspect("h:/a", path).Owner }
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
	b.reload()
	if res := b.one(bareAsk(s, 10, write("o", there, time.Hour))); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Fatalf("%+v", res)
	}
	// another client of the owner
	if res := b.one(bareAsk(bareSession(2), 1, write("o", here, time.Hour))); res.Code != wire.OK ||
		res.Status != wire.StatusOK {
		t.Fatalf("%+v", res)
	}
	if res := b.one(bareAsk(later(s), 11, give(here, there))); res.Code != wire.OK || holder(there) != "" ||
		holder(here) != "o" {
		t.Fatalf("the release is answered %+v; %q holds what its acquire took, %q what another client took since", res,
			holder(there), holder(here))
	}
	b.reload()
	if res := b.one(bareAsk(bareSession(2), 2, write("o", there, time.Hour))); res.Code != wire.OK ||
		res.Status != wire.StatusOK {
		t.Fatalf("%+v", res)
	}
	if res := b.one(bareAsk(later(s), 11, give(here, there))); res.Code != wire.OK || holder(there) != "o" {
		t.Fatalf("once more it is answered %+v, and %q holds what another client took since", res, holder(there))
	}
}

// TestNotTooLate: what says itself what it gives back is in no order, nor is what another owner asks for.
func TestNotTooLate(t *testing.T) {
	for name, give := range map[string]func(r *wire.Request){
		"a token":       func(r *wire.Request) { r.Token = 7 },
		"a request":     func(r *wire.Request) { r.Target = 5 },
		"another owner": func(r *wire.Request) { r.Owner = "p" },
		"another mode":  func(r *wire.Request) { r.Releases[0].Mode = wire.ModeRead },
		"many paths": func(r *wire.Request) {
			for i := range MaxSessionMarks {
				r.Releases = append(r.Releases, wire.ReleaseRequest{Path: fmt.Sprint("h:/a/x", i)})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBare(t, rows.FirstLog, DefaultLimits())
			s := bareSession(1)
			req := release("o", "h:/a/x")
			give(req)
			if res := b.one(bareAsk(s, 11, req)); res.Code != wire.OK {
				t.Fatalf("%+v", res)
			}
			if res := b.one(bareAsk(s, 10, write("o", "h:/a/x", time.Hour))); res.Code != wire.OK ||
				res.Status != wire.StatusOK {
				t.Errorf("%+v", res)
			}
		})
	}
}

// TestSessionRowsWithoutMarks: a session's row of a build before marks is read.
func TestSessionRowsWithoutMarks(t *testing.T) {
	l := DefaultLimits()
	s := &Session{id: engine.Session{1}, last: 5, highest: 9, window: 8}
	s.ring = []request{{answered: answered{id: 9, op: wire.OpRelease, token: 3}}}
	row := s.row()
	old := append([]byte{unmarkedRow}, row[1:len(row)-1]...) // without its marks, of which there are none
	got, err := sessionOf(s.id, old, &l)
	if err != nil || len(got.kept()) != 1 || got.kept()[0].answered != s.ring[0].answered {
		t.Fatalf("%+v, %v", got, err)
	}
	if string(got.row()) != string(row) {
		t.Errorf("it is written as %x, not %x", got.row(), row)
	}
}

// TestLeftOutIsDone: a release that comes late leaves to a later acquire what that took, and is done all the same: an
// acquire of before it takes nothing, however that later one's lock ended.
func TestLeftOutIsDone(t *testing.T) {
	const x, y = "h:/a/x", "h:/a/y"
	b := newBare(t, rows.FirstLog, DefaultLimits())
	s := bareSession(1)
	took := b.one(bareAsk(s, 12, write("o", x, time.Hour)))
	if took.Code != wire.OK || took.Status != wire.StatusOK {
		t.Fatalf("%+v", took)
	}
	late := release("o", x)
	late.Releases = append(late.Releases, wire.ReleaseRequest{Path: y})
	if res := b.one(bareAsk(s, 11, late)); res.Code != wire.OK || b.m.View(0).Inspect("h:/a", x).Owner != "o" {
		t.Fatalf("%+v; it gives back what a later acquire took", res)
	}
	over := release("o", x)
	over.Token = took.Token
	if res := b.one(bareAsk(s, 13, over)); res.Code != wire.OK || b.m.View(0).Inspect("h:/a", x).Owner != "" {
		t.Fatalf("%+v", res)
	}
	res := b.one(bareAsk(s, 10, write("o", x, time.Hour)))
	if owner := b.m.View(0).Inspect("h:/a", x).Owner; owner != "" {
		t.Errorf("an acquire whose release was answered OK is answered %v %v, and its path is held by %q", res.Code,
			res.Status, owner)
	}
}

// TestPartOfManyOfARelease: of a release of more paths than answers tell apart a part was carried out. Asked again as a
// whole it does not give back what another client of its owner has taken since.
func TestPartOfManyOfARelease(t *testing.T) {
	b := newBare(t, rows.FirstLog, DefaultLimits())
	s := bareSession(1)
	give := &wire.Request{Op: wire.OpRelease, Owner: "o"}
	for i := range MaxSessionMarks + 1 {
		give.Releases = append(give.Releases, wire.ReleaseRequest{Path: fmt.Sprint("h:/a/", i)})
	}
	path := give.Releases[0].Path
	for _, res := range []wire.Result{
		b.one(bareAsk(s, 9, write("o", path, time.Hour))), b.part(bareAsk(s, 11, give), "h:/a"),
		b.one(bareAsk(bareSession(2), 1, write("o", path, time.Hour))), b.one(bareAsk(later(s), 11, give)),
	} {
		if res.Code != wire.OK || res.Status != wire.StatusOK {
			t.Fatalf("%+v", res)
		}
	}
	if owner := b.m.View(0).Inspect("h:/a", path).Owner; owner != "o" {
		t.Errorf("%s is held by %q: a repeat gave back what was taken since", path, owner)
	}
}
