package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestABindOfItsOwnThatIsUnderWay: on the next connection the client binds an owner again. While that is unanswered,
// the program unbinds it, or binds it with a longer grace, and is answered. Binds and unbinds are in no order
// (PROTOCOL.md section 2: "Nothing else is ordered: wait for the reply"), so the earlier one may be carried out last:
// until it is answered the lower grace counts.
func TestABindOfItsOwnThatIsUnderWay(t *testing.T) {
	const short = 200 * time.Millisecond
	for name, ask := range map[string]func(c *Client) error{
		"Unbind": func(c *Client) error { return c.Unbind(context.Background(), "o") },
		"Bind": func(c *Client) error {
			_, err := c.Bind(context.Background(), "o", time.Minute, 0)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.client(WithGrace(DefaultGrace))
				bind(t, c, p, "o", short, 0)
				p.Close()
				p = f.open()
				p.want(wire.OpBind) // which is under way
				done := make(chan error, 1)
				go func() { done <- ask(c) }()
				p.ok(p.next())
				must(t, <-done)
				l := lockWith(t, c, p, Owner("o"), TTL(time.Hour))
				if d := time.Until(l.Deadline()); d > short {
					t.Errorf("the lock counts as held for %v; its connection may end with a grace of %v", d, short)
				}
			})
		})
	}
}
