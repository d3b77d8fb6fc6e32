package pathlockd

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRenewsItselfElsewhere: a program renews its owner in another namespace, for less than its way takes.
func TestRenewsItselfElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling()
		go p.serve(func(a *asked) *wire.Result {
			time.AfterFunc(200*time.Millisecond, func() { p.ok(a) })
			return nil
		})
		l, err := c.Lock(t.Context(), "a:/b/c", TTL(30*time.Second), Owner("me"))
		mustLock(t, l, err)
		_, err = c.Renew(t.Context(), "me", 100*time.Millisecond, "", 0, "x:/y")
		must(t, err)
		must(t, l.Err())
	})
}
