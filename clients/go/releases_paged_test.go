package pathlockd

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// manyBefore takes a lock of owner "me" on so many paths that all come before a:/b/c in the order in which they are
// told.
func manyBefore(t testing.TB, c *Client, n int) *Lock {
	t.Helper()
	var paths []Path
	for i := range n {
		paths = append(paths, Path{Path: fmt.Sprintf("a:/b/a%05d", i)})
	}
	l, err := c.LockAll(context.Background(), paths, Owner("me"), TTL(time.Hour))
	return mustLock(t, l, err)
}

// TestReleasesItselfOnALaterPage: a program gives back by a request of its own what a lock of the client holds for it.
// Its owner holds so much besides that the path would not be on the first page of what is told. That page says that the
// owner's lease goes on, and nothing of the path, which anybody may take.
func TestReleasesItselfOnALaterPage(t *testing.T) {
	for name, tc := range map[string]struct {
		before int // paths that are told before it
		way    time.Duration
	}{
		"on the first page":                {before: 10},
		"on the second":                    {before: 600},
		"on the second, on a way of 50 ms": {before: 600, way: 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newTimed(t)
				many, l := manyBefore(t, c, tc.before), hours(t, c, "a:/b/c")
				pass(3 * time.Hour)
				s.isHeld(l)
				s.takes(always(tc.way, nil))
				must(t, c.Release(context.Background(), "me", []wire.ReleaseRequest{{Path: "a:/b/c"}}, false, ""))
				s.isNobodys(l)
				s.isHeld(many)
				s.takes(nil)
			})
		})
	}
}

// TestReleasesItselfLateOnALaterPage: nobody knows what became of such a release, and it is carried out ten seconds
// later. Until then the path is held, and once it is not, the first page says what it said before.
func TestReleasesItselfLateOnALaterPage(t *testing.T) {
	for name, before := range map[string]int{"on the first page": 10, "on the second": 600} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newTimed(t)
				many, l := manyBefore(t, c, before), hours(t, c, "a:/b/c")
				pass(3 * time.Hour)
				s.isHeld(l)
				s.takes(func(req *wire.Request) (time.Duration, bool) {
					if req.Op == wire.OpRelease {
						return 10 * time.Second, true
					}
					return 0, false
				})
				own := &wire.Request{Op: wire.OpRelease, Owner: "me", Releases: []wire.ReleaseRequest{{Path: "a:/b/c"}}}
				c.Go(own, nil)
				pass(10*time.Second - time.Millisecond)
				s.isHeld(l)
				pass(time.Millisecond)
				s.isNobodys(l)
				s.isHeld(many)
			})
		})
	}
}
