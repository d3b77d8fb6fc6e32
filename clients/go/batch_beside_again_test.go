package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestBatchBesideWhatIsAskedAgain: a release is to be asked again under its id, and has no room for half a minute. Renewals that go
// ahead filled the backlog, and were sent and answered since: a batch that waits for room in the backlog goes on.
func TestBatchBesideWhatIsAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.telling(WithGrace(longGrace), WithBacklog(32))
		came := make(map[string]int)
		go p.serve(func(a *asked) *wire.Result {
			came[a.req.Owner]++
			switch a.req.Owner {
			case "sick":
				return nil
			case "other":
				if came["other"] == 1 {
					time.AfterFunc(time.Second, func() { p.refuse(a, wire.DeadlineExceeded) })
				}
				return nil
			case "me":
				time.AfterFunc(10*time.Millisecond, func() { p.ok(a) })
				return nil
			}
			return granted(a.req)
		})
		l, err := c.TryLock(t.Context(), "a:/b/mine", Owner("me"), TTL(100*time.Hour))
		mustLock(t, l, err)
		pass(2 * time.Second)
		go c.Release(t.Context(), "other", []wire.ReleaseRequest{{Path: "a:/sick/x"}}, false, "")
		pass(time.Millisecond)
		asksSick(c, 240)
		pass(3 * time.Second)
		for range 60 {
			c.Go(renewalFor(360_000_000), nil)
		}
		b := c.Batch()
		sent := make(chan error, 1)
		if err := b.Add(renewalFor(360_000_000), nil); err != nil {
			t.Fatal(err)
		}
		ctx, over := context.WithTimeout(t.Context(), 20*time.Second)
		defer over()
		go func() { sent <- b.Send(ctx) }()
		pass(10 * time.Second)
		select {
		case err := <-sent:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("the batch is not sent after 10 s")
		}
		pass(20 * time.Second)
	})
}
