package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAShorteningWhoseConnectionEnds: a program renews an owner for a second, and its context ends before the answer.
// The node has handed the request on to the leader, which is slow, when the connection ends. "Nothing raises it above
// that until there is an answer, also if nobody waits for that any more" (decision 0022): what is under way in the
// cluster may be carried out after the renewal of the next connection.
func TestAShorteningWhoseConnectionEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const short = time.Second
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		l := lockWith(t, c, p, Owner("me"), TTL(time.Minute))
		ctx, cancel := context.WithCancel(context.Background())
		told := make(chan error, 1)
		go func() {
			_, err := c.Renew(ctx, "me", short, "", 0)
			told <- err
		}()
		under := p.want(wire.OpRenew)
		for under.req.TTLMillis != uint64(short.Milliseconds()) { // the keeper's own
			p.ok(under)
			under = p.want(wire.OpRenew)
		}
		cancel()
		if err := <-told; !errors.Is(err, ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		p.Close()
		p = f.open()
		go p.serve(func(a *asked) *wire.Result {
			if a.id == under.id {
				return nil // the leader has it still
			}
			return granted(a.req)
		})
		pass(10 * time.Millisecond)
		if left := time.Until(l.Deadline()); l.Err() == nil && left > short {
			t.Errorf("the lock counts as held for %v more; the renewal for %v is not answered, and may be "+
				"carried out now", left, short)
		}
	})
}
