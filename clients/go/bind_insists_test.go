package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestABindThatIsAskedAgainForNobody: a Bind with a TTL, whose caller has gone, is asked again on the next connection,
// as it may leave leases less time. It is carried out there: so leases that the owner gets on that connection have its
// grace, and no more.
func TestABindThatIsAskedAgainForNobody(t *testing.T) {
	const short = 200 * time.Millisecond
	for name, before := range map[string]bool{"first Bind": false, "second Bind": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p, _ := onLine(f)
				if before {
					bind(t, c, p, "o", time.Minute, 0)
				}
				ctx, cancel := context.WithCancel(context.Background())
				done := make(chan error, 1)
				go func() {
					_, err := c.Bind(ctx, "o", short, time.Hour)
					done <- err
				}()
				first := p.want(wire.OpBind)
				cancel()
				if err := <-done; !errors.Is(err, ErrOutcomeUnknown) {
					t.Fatal(err)
				}
				p.Close()
				p = f.open()
				again := false
				var late *asked
				for range 2 {
					a := p.next()
					if a.req.Op != wire.OpBind {
						t.Fatalf("got %v", a.req.Op)
					}
					if a.req.GraceMillis == uint64(short/time.Millisecond) {
						again = a.id == first.id
						late = a
					} else {
						p.ok(a)
					}
					if !before {
						break
					}
				}
				if !again {
					t.Fatal("not asked again: the test shows nothing")
				}
				p.ok(late) // it is carried out, and last
				pass(0)
				l := lockWith(t, c, p, Owner("o"), TTL(time.Hour))
				if d := time.Until(l.Deadline()); d > short {
					t.Errorf("the server has bound the owner with a grace of %v; a lock counts as sure for %v with "+
						"nothing heard", short, d)
				}
			})
		})
	}
}
