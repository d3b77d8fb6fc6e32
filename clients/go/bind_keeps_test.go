package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestBindingCostsNoLock: a client holds a lock, and its connection is whole. Whatever the program binds the lock's
// owner with, again, or not any more: nothing ends the lock.
func TestBindingCostsNoLock(t *testing.T) {
	const short = 300 * time.Millisecond
	bg := context.Background()
	for name, do := range map[string]func(t *testing.T, c *Client){
		"for less than it is since the last sign of life": func(t *testing.T, c *Client) {
			_, err := c.Bind(bg, "o", short, 0)
			must(t, err)
		},
		"for less, and for more": func(t *testing.T, c *Client) {
			for _, d := range []time.Duration{short, 10 * time.Second} {
				_, err := c.Bind(bg, "o", d, 0)
				must(t, err)
				pass(time.Second)
			}
		},
		"for less, and not any more": func(t *testing.T, c *Client) {
			_, err := c.Bind(bg, "o", short, 0)
			must(t, err)
			pass(time.Second)
			must(t, c.Unbind(bg, "o"))
		},
		"for less and less": func(t *testing.T, c *Client) {
			for d := 8 * time.Second; d > short; d /= 2 {
				_, err := c.Bind(bg, "o", d, 0)
				must(t, err)
			}
		},
		"unbound, which it was not": func(t *testing.T, c *Client) { must(t, c.Unbind(bg, "o")) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p, _ := onLine(f)
				go p.serve(func(a *asked) *wire.Result {
					time.Sleep(20 * time.Millisecond) // the way there and back
					return granted(a.req)
				})
				l, err := c.TryLock(bg, "a:/b/c", Owner("o"), TTL(time.Hour))
				mustLock(t, l, err)
				pass(4900 * time.Millisecond) // a sign of life is asked for every five seconds
				do(t, c)
				for range 600 {
					pass(100 * time.Millisecond)
					if err := l.Err(); err != nil {
						t.Fatal(err)
					}
				}
				must(t, c.Close())
				pass(time.Second)
			})
		})
	}
}

// TestABoundOwnerGetsWhatItWaitsFor: the lock is granted long after the last sign of life that an owner's grace of this
// length would need.
func TestABoundOwnerGetsWhatItWaitsFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p, _ := onLine(f)
		bind(t, c, p, "o", 300*time.Millisecond, 0)
		go p.serve(func(a *asked) *wire.Result {
			if a.req.Op == wire.OpAcquire {
				time.Sleep(3 * time.Second)
			}
			return granted(a.req)
		})
		l, err := c.Lock(context.Background(), "a:/b/c", Owner("o"), TTL(time.Hour))
		mustLock(t, l, err)
		pass(time.Minute)
		must(t, l.Err())
		must(t, c.Close())
		pass(4 * time.Second)
	})
}
