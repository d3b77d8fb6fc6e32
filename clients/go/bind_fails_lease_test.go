package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestABoundOwnerKeepsItsLease: TestABindBesideOneThatFails at a server. The owner's lease has an hour; its connection
// breaks and the client connects again at once.
func TestABoundOwnerKeepsItsLease(t *testing.T) {
	const grace = 4 * time.Second // the machine may be slow to connect again
	for name, beside := range map[string]bool{"one Bind": false, "another one fails": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, patience)
			line := new(lossyLine)
			addr := server(t)
			c, other := dial(t, addr, WithDialer(line.dial)), dial(t, addr)
			p := path(t, "/a/p")
			res, err := c.Acquire(ctx, &wire.Request{Owner: "me", TTLMillis: 3_600_000,
				Locks: []wire.LockRequest{{Path: p}}})
			if must(t, err); res.Status != wire.StatusOK {
				t.Fatal(res.Status)
			}
			line.held.Lock()
			first, second := make(chan error, 1), make(chan error, 1)
			go func() {
				_, err := c.Bind(ctx, "me", grace, time.Hour)
				first <- err
			}()
			eventually(t, "that it is asked for", func() bool { return c.underway("me") > 0 })
			if beside {
				short, leave := context.WithTimeout(ctx, 100*time.Millisecond)
				defer leave()
				go func() {
					_, err := c.Bind(short, "me", grace, time.Hour)
					second <- err
				}()
				if err := <-second; !errors.Is(err, ErrOutcomeUnknown) {
					t.Fatal(err)
				}
			}
			line.held.Unlock()
			must(t, <-first)
			eventually(t, "that it is over", func() bool { return c.underway("me") == 0 })
			line.held.Lock()
			line.cut()
			line.held.Unlock()
			must(t, c.Ping(ctx))
			time.Sleep(grace + grace/2) // nothing is to happen
			if o := ownerOf(t, other, p); o != "me" {
				t.Errorf("Bind was answered, the client is connected again, and the lock of an hour is %q's", o)
			}
		})
	}
}

// underway is how many Bind and Unbind of an owner are under way.
func (c *Client) underway(owner string) int {
	c.binds.mu.Lock()
	defer c.binds.mu.Unlock()
	if o := c.binds.owned[owner]; o != nil {
		return o.under
	}
	return 0
}
