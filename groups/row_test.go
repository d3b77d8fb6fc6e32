package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// waiter is a client that waits for a path.
type waiter struct {
	c   *caller
	id  uint64
	req *wire.Request
	o   *outcome
}

// queue has one more client of the rig wait for a path. The places of a row count from 0.
func (r *rig) queue(place int, path string) *waiter {
	r.t.Helper()
	w := &waiter{c: r.session(), id: r.next.Add(1), req: waiting(write(fmt.Sprintf("w%d", place), path, time.Hour))}
	w.stand(place)
	return w
}

// stand asks, for the first time or again, and checks at which place that is.
func (w *waiter) stand(place int) {
	w.c.r.t.Helper()
	w.o = w.c.start(w.id, w.req)
	if res := <-w.o.queued; res.Position != uint64(place)+1 {
		w.c.r.t.Fatalf("waiter %d stands at %d", place, res.Position)
	}
}

// served sees a row of waiters granted a path that is free now: one after the other as each
// releases it, each once and under a higher token, while those behind it hear nothing.
func served(t *testing.T, row []*waiter, path string) {
	t.Helper()
	last := int64(0)
	for i, w := range row {
		var res wire.Result
		select {
		case res = <-w.o.done:
		case <-time.After(patience):
			t.Fatalf("waiter %d is not granted", i)
		}
		if res.Code != wire.OK || res.Status != wire.StatusOK || res.Token <= last {
			t.Fatalf("waiter %d: %+v after token %d", i, res, last)
		}
		last = res.Token
		for j := i + 1; j < len(row); j++ {
			select {
			case res := <-row[j].o.done:
				t.Fatalf("waiter %d was answered %+v while %d holds the path", j, res, i)
			case res := <-row[j].o.queued:
				t.Fatalf("waiter %d was told twice that it is queued: %+v", j, res)
			default:
			}
		}
		w.c.must(release(w.req.Owner, path))
	}
}
