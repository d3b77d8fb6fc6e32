package pathlockd

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// manyAtRisk: a program holds so many paths in one lock, over a way of a tenth of a second, and asks by requests of its
// own for another path, which somebody else has, and would give so many of them back for it. That is refused (CONFLICT
// changes nothing), and answered at once. Nothing is wrong, and its owner holds all of the lock.
func manyAtRisk(t *testing.T, n, offered int) {
	bubble(t, func(t *testing.T) {
		defer pass(2 * simSilent)
		ctx := context.Background()
		s, p := aNode()
		c := dial(t, "n0:1", WithDialer(p.dial), WithName("c"))
		p.late(50 * time.Millisecond)
		paths := longPaths(n)
		theirs := namespaceOf(paths[0].Path) + "/theirs"
		other, err := c.Lock(ctx, theirs)
		mustLock(t, other, err)
		l, err := c.LockAll(ctx, paths, Owner("batch"), TTL(time.Hour))
		mustLock(t, l, err)
		pass(30 * time.Second)
		must(t, l.Err())
		for some := range slices.Chunk(paths[n-offered:], 1000) {
			req := &wire.Request{
				Owner: "batch", TTLMillis: 60_000, Flags: wire.FlagNoQueue, Locks: []wire.LockRequest{{Path: theirs}},
			}
			for _, q := range some {
				req.Releases = append(req.Releases, wire.ReleaseRequest{Path: q.Path})
			}
			asksFor(t, c, req, wire.StatusConflict)
		}
		pass(10 * time.Second)
		for _, q := range []Path{paths[0], paths[n/2], paths[n-1]} {
			if !s.holds("batch", q) {
				t.Fatal("it is not held: this shows nothing")
			}
		}
		if err := l.Err(); err != nil {
			t.Errorf("nothing is wrong, and: %v", err)
		}
		_ = l.Unlock()
		must(t, c.Close())
		s.nodes[0].crash()
	})
}

func TestManyPathsAtRisk(t *testing.T)      { manyAtRisk(t, 20_000, 1) }
func TestSeveralPathsAtRisk(t *testing.T)   { manyAtRisk(t, 2000, 1) }
func TestAllOfManyPathsAtRisk(t *testing.T) { manyAtRisk(t, 20_000, 6000) }

// TestAssertsOfManyPaths: the same against a real server, on a short way: what asks about such a lock apart names more
// paths than a request may (wire.MaxPaths).
func TestAssertsOfManyPaths(t *testing.T) {
	ctx := within(t, patience)
	c := dial(t, server(t))
	of := path(t, "/x/")
	var paths []Path
	for i := range 2000 {
		paths = append(paths, Path{Path: of + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) +
			string(rune('a'+i/676))})
	}
	l, err := c.LockAll(ctx, paths, Owner(t.Name()), TTL(time.Hour))
	mustLock(t, l, err)
	other, err := c.Lock(ctx, of+"other")
	mustLock(t, other, err)
	first := c.home.tie
	for range 3 {
		_, err = c.Acquire(ctx, &wire.Request{
			Owner: t.Name(), TTLMillis: 60_000, Flags: wire.FlagNoQueue,
			Locks: []wire.LockRequest{{Path: of + "other"}}, Releases: []wire.ReleaseRequest{{Path: paths[7].Path}},
		})
		must(t, err)
		time.Sleep(time.Second)
	}
	c.keeper.mu.Lock()
	second := c.home.tie
	c.keeper.mu.Unlock()
	if first != second {
		t.Errorf("the connection was given up: %d, then %d", first.number, second.number)
	}
	if err := l.Err(); err != nil {
		t.Errorf("nothing was given back, and: %v", err)
	}
	must(t, l.Unlock())
	must(t, other.Unlock())
}

// TestManyLocksAtRisk: an owner holds a lock of 12 000 paths, and eighty of one path each that come behind these in the
// order in which they are told. The paths of the eighty are offered for one that somebody else has.
func TestManyLocksAtRisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		defer pass(2 * simSilent)
		ctx := context.Background()
		s, p := aNode()
		c := dial(t, "n0:1", WithDialer(p.dial), WithName("c"))
		p.late(50 * time.Millisecond)
		other, err := c.Lock(ctx, "a:/0/theirs")
		mustLock(t, other, err)
		big, err := c.LockAll(ctx, longPaths(12_000), Owner("batch"), TTL(time.Hour))
		mustLock(t, big, err)
		var small []*Lock
		req := &wire.Request{Owner: "batch", TTLMillis: 60_000, Flags: wire.FlagNoQueue,
			Locks: []wire.LockRequest{{Path: "a:/0/theirs"}}}
		for i := range 80 {
			path := "a:/0/z" + string(rune(0x61+i%26)) + string(rune(0x61+i/26))
			l, err := c.Lock(ctx, path, Owner("batch"), TTL(time.Hour))
			small = append(small, mustLock(t, l, err))
			req.Releases = append(req.Releases, wire.ReleaseRequest{Path: path})
		}
		pass(30 * time.Second)
		asksFor(t, c, req, wire.StatusConflict)
		pass(10 * time.Second)
		for i, l := range small {
			if !s.holds("batch", l.Paths()[0]) {
				t.Fatal("this shows nothing")
			}
			if err := l.Err(); err != nil {
				t.Errorf("nothing is wrong, and number %d: %v", i, err)
			}
		}
		must(t, c.Close())
		s.nodes[0].crash()
	})
}
