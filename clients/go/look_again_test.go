package pathlockd

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestALookThatIsAskedAgain: there is a doubt about a lock, and one more when the server was asked already what its
// owner holds. So it is to be asked again, whatever is answered meanwhile to a renewal that was sent for the first
// doubt. Each answer comes in time, nothing is wrong, and no lock is lost.
func TestALookThatIsAskedAgain(t *testing.T) {
	const ms = time.Millisecond
	release := func(c *Client, path string) {
		c.Go(&wire.Request{Op: wire.OpRelease, Owner: "me", Releases: []wire.ReleaseRequest{{Path: path}}}, nil)
	}
	for name, tc := range map[string]struct {
		renewals, looks, releases time.Duration // what they take
		doubt                     func(c *Client, s *timed)
	}{
		"another lock is given back, which takes long": {50 * ms, 60 * ms, 700 * ms, func(c *Client, _ *timed) {
			release(c, "a:/b/d")
		}},
		"two others are given back at once": {25 * ms, 30 * ms, 20 * ms, func(c *Client, _ *timed) {
			release(c, "a:/b/d")
			release(c, "a:/b/e")
		}},
		"two others are given back, one after the other": {25 * ms, 30 * ms, 20 * ms, func(c *Client, _ *timed) {
			release(c, "a:/b/d")
			pass(10 * ms)
			release(c, "a:/b/e")
		}},
		"it is told twice that an earlier lease was killed": {50 * ms, 60 * ms, 50 * ms, func(_ *Client, s *timed) {
			s.p.tell(wire.EventKilled, "me", 77)
			pass(30 * ms)
			s.p.tell(wire.EventKilled, "me", 78)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newTimed(t)
				l := hours(t, c, "a:/b/c")
				hours(t, c, "a:/b/d")
				hours(t, c, "a:/b/e")
				pass(time.Minute)
				s.isHeld(l)
				s.takes(always(tc.renewals, map[wire.Op]time.Duration{
					wire.OpListLocks: tc.looks, wire.OpRelease: tc.releases,
				}))
				tc.doubt(c, s)
				pass(10 * time.Second)
				s.isHeld(l)
			})
		})
	}
}
