package pathlockd

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestReleasesItselfLate: nobody knows what became of a release of the program's own. Its log takes it long after the
// server was asked what is left, also in the last moment in which it does. The owner's lease stays, for another hold.
func TestReleasesItselfLate(t *testing.T) {
	repeat := time.Duration(testLimits.RepeatMillis) * time.Millisecond
	t.Run("in the middle", func(t *testing.T) { releasesLate(t, repeat/2) })
	t.Run("at last", func(t *testing.T) { releasesLate(t, repeat) })
}

func releasesLate(t *testing.T, late time.Duration) {
	const path = "a:/b/c"
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling()
		l, _ := taking(t, c, p, Owner("me"))
		unknown := make(chan error, 1)
		own := &wire.Request{Op: wire.OpRelease, Owner: "me", Releases: []wire.ReleaseRequest{{Path: path}}}
		c.Go(own, func(_ *wire.Result, err error) { unknown <- err })
		a := p.next()
		for a.req.Op != wire.OpRelease {
			p.ok(a)
			a = p.next()
		}
		p.refuse(a, wire.DeadlineExceeded)
		if <-unknown == nil {
			t.Fatal("this shows nothing")
		}
		p.lists = true
		taken := time.Now().Add(late)
		go p.serve(func(a *asked) *wire.Result {
			if a.req.Op == wire.OpListLocks && time.Until(taken) > 0 {
				return &wire.Result{Done: true, List: &wire.List{Infos: []wire.LockInfo{
					{Path: path, HasFence: true, Fence: 7, SinceUnixMillis: 1},
				}}}
			}
			return granted(a.req)
		})
		pass(time.Until(taken) - time.Millisecond)
		must(t, l.Err())
		pass(2 * askedWithin)
		if l.Err() == nil {
			t.Errorf("it is given back, and counts as held for %v", time.Until(l.Deadline()))
		}
	})
}
