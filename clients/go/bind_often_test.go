package pathlockd

import (
	"context"
	"testing"
	"time"
)

// TestBindsOften: a program binds the owner of a lock again and again, for a long grace, so that there is a new tie
// before the answer to any renewal, which takes 50 ms. Each is answered in time, for a minute, and the lock's TTL is 10
// s.
func TestBindsOften(t *testing.T) {
	for name, tc := range map[string]struct {
		every   time.Duration
		unbinds bool
	}{
		"faster than answers":              {every: 20 * time.Millisecond},
		"as often as answers":              {every: 45 * time.Millisecond},
		"faster than answers, and unbinds": {every: 20 * time.Millisecond, unbinds: true},
		"as often as answers, and unbinds": {every: 45 * time.Millisecond, unbinds: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				ctx := context.Background()
				c, s := newTimed(t)
				l, err := c.Lock(ctx, "a:/b/c", Owner("me"), TTL(10*time.Second))
				mustLock(t, l, err)
				pass(time.Second)
				s.takes(always(50*time.Millisecond, nil))
				for end := time.Now().Add(time.Minute); l.Err() == nil && time.Now().Before(end); pass(tc.every) {
					go func() {
						_, err := c.Bind(ctx, "me", time.Hour, 0)
						if err == nil && tc.unbinds {
							err = c.Unbind(ctx, "me")
						}
						if err != nil {
							t.Error(err)
						}
					}()
				}
				s.isHeld(l)
				pass(time.Second)
				s.takes(nil)
			})
		})
	}
}
