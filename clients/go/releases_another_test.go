package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestReleasesItselfAnother: an owner has two locks, with one lease. The program gives back the path of one of them by
// a request of its own, and then nothing is heard of the server for a while. The other lock is believed in as before.
func TestReleasesItselfAnother(t *testing.T) {
	for name, answered := range map[string]bool{"answered": true, "on its way": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newTimed(t)
				l, other := hours(t, c, "a:/b/c"), hours(t, c, "a:/b/d")
				pass(time.Minute)
				s.isHeld(l)
				slow := always(30*time.Second, nil)
				if !answered {
					s.takes(slow)
				}
				own := &wire.Request{Op: wire.OpRelease, Owner: "me", Releases: []wire.ReleaseRequest{{Path: "a:/b/d"}}}
				c.Go(own, func(*wire.Result, error) { s.takes(slow) })
				pass(10 * time.Second)
				s.isHeld(l)
				if other.Err() == nil {
					t.Error("the one that is given back counts as held")
				}
				pass(time.Minute)
				s.isHeld(l)
				s.takes(nil)
			})
		})
	}
}

// TestReleasesItselfAnotherWithoutAConnection: the connection is gone for three seconds, and meanwhile the program asks
// to give one of the two back, which is sent when there is a connection again. That costs the other one nothing: its
// grace is 15 s, and its TTL an hour.
func TestReleasesItselfAnotherWithoutAConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		defer pass(2 * simSilent)
		s, p := aNode()
		c := dial(t, "n0:1", WithDialer(p.dial), WithName("c"))
		l := hours(t, c, "a:/b/c")
		hours(t, c, "a:/b/d")
		pass(time.Minute)
		must(t, l.Err())
		p.dies(true)
		p.each(func(l *simLink) { l.end(true, true) })
		pass(100 * time.Millisecond)
		done := make(chan error, 1)
		go func() {
			done <- c.Release(context.Background(), "me", []wire.ReleaseRequest{{Path: "a:/b/d"}}, false, "")
		}()
		pass(3 * time.Second)
		p.dies(false)
		pass(time.Minute)
		must(t, <-done)
		if err := l.Err(); err != nil {
			t.Errorf("only the other one is given back, and it is lost: %v", err)
		}
		if s.holds("me", Path{Path: "a:/b/d"}) {
			t.Error("it is not given back: this shows nothing")
		}
		must(t, c.Close())
		s.nodes[0].crash()
	})
}
