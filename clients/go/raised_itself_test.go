package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRaisedByTheProgram: a program asks for a lock's path once more, with another one, by a request of its own. Its
// owner holds the path under the later token from then on, without a break: the lock is not lost.
func TestRaisedByTheProgram(t *testing.T) {
	for name, flags := range map[string]wire.Flags{"asked once": 0, "waiting": wire.FlagWait} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c, s := newTimed(t)
				l := hours(t, c, "a:/b/c")
				res, err := c.Acquire(context.Background(), &wire.Request{
					Owner: "me", TTLMillis: millis(time.Hour), Flags: flags,
					Locks: []wire.LockRequest{{Path: "a:/b/c"}, {Path: "a:/b/d"}},
				})
				if must(t, err); res.Status != wire.StatusOK || res.Token == l.Token() {
					t.Fatalf("%v, token %d after %d: this shows nothing", res.Status, res.Token, l.Token())
				}
				for end := time.Now().Add(3 * time.Hour); l.Err() == nil && time.Now().Before(end); {
					pass(time.Second) // what is lost is not renewed: whether it is held is asked right then
				}
				s.isHeld(l)
			})
		})
	}
}
