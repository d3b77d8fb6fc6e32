package groups

import (
	"testing"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// TestMeet: what was resolved with different routes may be about one path if one namespace lies in the other.
func TestMeet(t *testing.T) {
	for _, one := range []struct {
		a, b string
		meet bool
	}{
		{"h:/a", "h:/a", true}, {"h:/a", "h:/a/b", true}, {"h:/", "h:/a", true}, {"h", "h:/a", true},
		{"h", "h:/", true},
		{"h:/a", "h:/ab", false}, {"h:/a", "h:/b", false}, {"h", "hh:/a", false}, {"h:/a/b", "h:/a/c", false},
		{"", "h:/a", false},
	} {
		if meet(one.a, one.b) != one.meet || meet(one.b, one.a) != one.meet {
			t.Errorf("%q and %q: want %v", one.a, one.b, one.meet)
		}
	}
}

// TestBehindWhatMovedTwice: an acquire met a move and went on to the namespace that its path came to, which moves
// again. The release behind it met the first move only now: it stays behind the acquire, although they were in
// different namespaces when they were last asked.
func TestBehindWhatMovedTwice(t *testing.T) {
	routes := func(version uint64) *wire.Routes { return wire.NewRoutes(version, 1, nil) }
	first, now := routes(3), routes(5)
	var ln line
	ln.look(now)
	ln.enter(&part{Command: replica.Command{Op: wire.OpAcquire}, ns: "m:/x/y", routes: first, came: 1})
	release := &part{Command: replica.Command{Op: wire.OpRelease}, ns: "m:/x", routes: routes(2), came: 2}
	if !ln.behind(release, now) {
		t.Error("the release goes before the acquire")
	}
	if ln.behind(&part{Command: replica.Command{Op: wire.OpRelease}, ns: "m:/z", routes: routes(2), came: 2}, now) {
		t.Error("another namespace waits too")
	}
}
