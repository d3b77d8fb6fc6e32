package pathlockd

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestTheBacklogAfterReconnects: what a broken connection left unanswered is sent again, and does not make the backlog
// larger for what comes later: Go refuses what is over it (WithBacklog).
func TestTheBacklogAfterReconnects(t *testing.T) {
	const backlog, rounds, each = 3, 10, 8
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p, way := onLine(f, WithGrace(longGrace), WithKeepAlive(time.Hour), WithBacklog(backlog))
		for range rounds {
			for range each {
				c.Go(&wire.Request{Op: wire.OpRelease, Owner: "o", Releases: []wire.ReleaseRequest{{Path: "a:/b"}}},
					nil)
				p.wantPast(wire.OpRelease)
			}
			way.cut(nil)
			p = f.open()
			for range each {
				p.ok(p.wantPast(wire.OpRelease))
			}
			pass(0)
		}
		way.cut(errUnreachable)
		pass(time.Millisecond)
		waiting := 0
		for range 10 * rounds * each {
			refused := false
			c.Go(&wire.Request{Op: wire.OpRelease, Owner: "o", Releases: []wire.ReleaseRequest{{Path: "a:/b"}}},
				func(_ *wire.Result, err error) {
					refused = errors.Is(err, ErrBacklog)
				})
			if refused {
				break
			}
			waiting++
		}
		if waiting > backlog {
			t.Errorf("%d requests wait to be sent, with a backlog of %d", waiting, backlog)
		}
	})
}

// TestBatchesBehindALeaderChange: a namespace has got another leader, and the earlier one takes its time to answer what
// is under way to it: what comes for the namespace is held back. Batch.Send waits when as many requests as the backlog
// wait to be sent.
func TestBatchesBehindALeaderChange(t *testing.T) {
	const backlog = 8
	bubble(t, func(t *testing.T) {
		f := newFakeCluster(t, 2, 1, 0, 0, 0)
		c := f.client(WithBacklog(backlog))
		f.warm(c)
		var mu sync.Mutex
		var slow func()
		f.serve = func(p *peer, a *asked) *wire.Result {
			if a.req.Owner == "slow" {
				mu.Lock()
				defer mu.Unlock()
				slow = func() { p.ok(a) }
				return nil
			}
			return granted(a.req)
		}
		c.Go(&wire.Request{Op: wire.OpRelease, Owner: "slow", Releases: []wire.ReleaseRequest{{Path: in(0)}}}, nil)
		pass(0)
		f.lead(0, 0, 0, 0)
		f.tell()
		pass(0)
		b, sent := c.Batch(), 0
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		for range 100 * backlog {
			must(t, b.Add(&wire.Request{Op: wire.OpRelease, Owner: "o", Releases: []wire.ReleaseRequest{{Path: in(0)}}},
				nil))
			if b.Send(ctx) != nil {
				break
			}
			sent++
		}
		if sent > 2*backlog {
			t.Errorf("%d requests wait to be sent, with a backlog of %d", sent, backlog)
		}
		mu.Lock()
		slow()
		mu.Unlock()
		pass(time.Second)
	})
}
