package pathlockd

import (
	"context"
	"testing"
	"time"
)

// TestALookOfManyPagesOnALongWay: a program holds 20 000 paths by an owner that it names, for 5 s at a time, over a way
// of a tenth of a second, with nothing wrong. What its owner holds comes in 40 pages, one after the other, which takes
// four seconds, and each renewal is answered within a tenth of a second. "Lost: somebody took it away, or no renewal
// came through" (doc.go).
func TestALookOfManyPagesOnALongWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		defer pass(2 * simSilent)
		s, p := aNode()
		c := dial(t, "n0:1", WithDialer(p.dial), WithName("c"))
		p.late(50 * time.Millisecond)
		l, err := c.LockAll(context.Background(), longPaths(20_000), Owner("batch"), TTL(5*time.Second))
		mustLock(t, l, err)
		pass(time.Minute)
		if err := l.Err(); err != nil {
			t.Errorf("nothing is wrong, and: %v", err)
		}
		_ = l.Unlock()
		must(t, c.Close())
		s.nodes[0].crash()
	})
}

// TestManyPathsOnALongWayAreHandedOut: so many paths are granted after a wait, over the same way. The lease is renewed
// before they are handed out, and what the owner holds is looked at behind that: all of it would take longer than the
// lease lasts, which nothing renews meanwhile.
func TestManyPathsOnALongWayAreHandedOut(t *testing.T) {
	const free = 4 * time.Second
	bubble(t, func(t *testing.T) {
		defer pass(2 * simSilent)
		s, p := aNode()
		c := dial(t, "n0:1", WithDialer(p.dial), WithName("c"))
		p.late(50 * time.Millisecond)
		paths := longPaths(16_000)
		first, err := c.Lock(context.Background(), paths[0].Path, Owner("other"), TTL(time.Hour))
		mustLock(t, first, err)
		time.AfterFunc(free, func() { _ = first.Unlock() })
		began := time.Now()
		l, err := c.LockAll(context.Background(), paths, Owner("batch"), TTL(3*time.Second))
		mustLock(t, l, err)
		if took := time.Since(began); took > free+time.Second {
			t.Errorf("free after %v, and handed out after %v", free, took)
		}
		pass(20 * time.Second)
		must(t, l.Err())
		_ = l.Unlock()
		must(t, c.Close())
		s.nodes[0].crash()
	})
}

// TestTheEarliestLockOnTheLastPage: an owner has one lock, and takes 10 000 paths more over a way of a fifth of a
// second, all of which come before that of the first in the order in which they are told, in 20 pages. Nothing is
// wrong. And it waits for one more that comes after them all, for 3 s at a time, which all pages take longer to tell
// than.
func TestTheEarliestLockOnTheLastPage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		defer pass(2 * simSilent)
		s, p := aNode()
		c := dial(t, "n0:1", WithDialer(p.dial), WithName("c"))
		p.late(100 * time.Millisecond)
		take := func(ttl time.Duration, paths ...Path) *Lock {
			l, err := c.LockAll(context.Background(), paths, Owner("batch"), TTL(ttl))
			return mustLock(t, l, err)
		}
		z := Path{Path: "a:/0/z2"}
		other, err := c.Lock(context.Background(), z.Path, Owner("other"), TTL(time.Hour))
		mustLock(t, other, err)
		first, many := take(8*time.Second, Path{Path: "a:/0/z1"}), take(8*time.Second, longPaths(20_000)...)
		pass(20 * time.Second)
		must(t, first.Err())
		must(t, many.Err())
		const free = 2 * time.Second
		time.AfterFunc(free, func() { _ = other.Unlock() })
		began := time.Now()
		last := take(3*time.Second, z)
		if took := time.Since(began); took > free+2*time.Second {
			t.Errorf("free after %v, and handed out after %v", free, took)
		}
		pass(20 * time.Second)
		for _, l := range []*Lock{first, many, last} {
			must(t, l.Err())
		}
		must(t, c.Close())
		s.nodes[0].crash()
	})
}

// TestWhatAPageProves: what an owner holds still says that its lease is the one that its locks were taken under, if it
// is what a lock took, and for those that came to the lease after that.
func TestWhatAPageProves(t *testing.T) {
	const p, q = "a:/b/p", "a:/b/q"
	write := func(path string, token int64, taken, lived time.Duration) *Lock {
		return &Lock{paths: []Path{{Path: path}}, token: token, taken: taken, lived: lived, number: 1}
	}
	read := func(since ...int64) *Lock {
		return &Lock{paths: []Path{{Path: p, Mode: Read}}, since: since, number: 1}
	}
	later := write(q, 8, 5, 4)
	later.number = 2
	for name, tc := range map[string]struct {
		locks  []*Lock
		held   heldPath
		proves bool
	}{
		"a write under its token":                 {[]*Lock{write(p, 7, 2, 1)}, heldPath{true, 7, 100}, true},
		"under another one":                       {[]*Lock{write(p, 7, 2, 1)}, heldPath{true, 9, 100}, false},
		"a read of which nothing was told before": {[]*Lock{read()}, heldPath{since: 100}, false},
		"a read held since then":                  {[]*Lock{read(100)}, heldPath{since: 100}, true},
		"a read taken anew":                       {[]*Lock{read(99)}, heldPath{since: 100}, false},
		"and a lock that came after it": {[]*Lock{write(p, 7, 2, 1), write(q, 8, 4, 3)},
			heldPath{true, 7, 100}, true},
		"and one asked for at the same time": {[]*Lock{write(p, 7, 4, 1), write(q, 8, 4, 3)},
			heldPath{true, 7, 100}, false},
		"and one before, held since then": {[]*Lock{write(p, 7, 4, 3), write(q, 8, 2, 5)},
			heldPath{true, 7, 100}, true},
		"and one that the look is not about": {[]*Lock{write(p, 7, 9, 8), later}, heldPath{true, 7, 100}, true},
		"nothing of the lock":                {[]*Lock{write(q, 7, 2, 1)}, heldPath{true, 7, 100}, false},
	} {
		t.Run(name, func(t *testing.T) {
			mode := tc.locks[0].paths[0].Mode
			look := &look{l: &lease{locks: tc.locks}, upTo: 1, held: holds{{Path: p, Mode: mode}: tc.held}}
			if look.proves() != tc.proves {
				t.Errorf("proves is %v, want %v", !tc.proves, tc.proves)
			}
		})
	}
	first := write(q, 7, 2, 1)
	look := &look{l: &lease{locks: []*Lock{first, write("a:/b/r", 8, 4, 3)}}, upTo: 1, sure: first}
	if !look.proves() {
		t.Error("the first lock is held, as was told besides, and the other one came after it: a doubt is left")
	}
}
