package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAnUnbindLeavesAnEarlierSession: as TestAnUnbindLeavesAnotherTie, but that the connection of the other lane breaks
// before the Unbind. Its node does not reach the logs for 75 s, so they hear that late. The lane gets no connection for
// 56 s, so that its next one is of another session, on which nothing hangs and nothing is told of the lease. Then comes
// the Unbind, behind which the home lane's node does not reach the logs for a while: what is left of the lease ends
// with what the client has forgotten.
func TestAnUnbindLeavesAnEarlierSession(t *testing.T) {
	bubble(t, func(t *testing.T) {
		defer pass(3 * simSilent)
		ctx := context.Background()
		w := tieTwice(t, WithGrace(5*time.Second))
		other := w.client(t, "other", 3)
		_, err := w.c.Bind(ctx, "p", 5*time.Second, 0) // who stays bound: all goes on by the home lane
		must(t, err)
		w.s.nodes[1].standStill(75 * time.Second)
		w.p.dies(true)
		w.far(t).stop()
		pass(56 * time.Second)
		w.p.dies(false)
		pass(10 * time.Second)
		must(t, w.l.Err())
		w.standsStillAt(wire.OpUnbind, 25*time.Second)
		must(t, w.c.Unbind(ctx, "o"))
		w.heldByOne(t, other)
		pass(10 * time.Second)
		w.end(t, other)
	})
}

// TestAnUnbindEndsWhileConfirmed: a lock is granted by the lane of the node that leads its group while its owner is
// bound, so it is confirmed by a renewal by the home lane, and then by a look, before it is handed out. Between the two
// an Unbind is carried out: the lease hangs on the connection of the other lane alone, which breaks.
func TestAnUnbindEndsWhileConfirmed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		defer pass(3 * simSilent)
		ctx := context.Background()
		w := twoLanes(t, WithGrace(5*time.Second))
		other := w.client(t, "other", 3)
		theirs, err := other.Lock(ctx, in(1))
		mustLock(t, theirs, err)
		got := make(chan *Lock)
		go func() {
			l, err := w.c.Lock(ctx, in(1), Owner("o"), TTL(5*time.Minute))
			got <- mustLock(t, l, err)
		}()
		pass(time.Second)
		for _, owner := range []string{"p", "o"} { // p stays bound: all goes by the home lane
			_, err = w.c.Bind(ctx, owner, 5*time.Second, 0)
			must(t, err)
		}
		pass(time.Second)
		w.s.mu.Lock()
		w.s.slow = 300 * time.Millisecond
		w.s.mu.Unlock()
		w.standsStillAt(wire.OpListLocks, 25*time.Second)
		must(t, theirs.Unlock())
		pass(5 * time.Millisecond)
		unbound := make(chan error, 1)
		go func() { unbound <- w.c.Unbind(ctx, "o") }()
		w.l = <-got
		if w.l.in == &w.c.home.session {
			t.Fatal("it was asked at the home lane, and this shows nothing")
		}
		w.p.dies(true)
		w.far(t).stop()
		w.heldByOne(t, other)
		w.p.dies(false)
		must(t, <-unbound)
		pass(10 * time.Second)
		w.end(t, other)
	})
}

// standsStillAt has the home lane's node reach no log for a while from when it is asked for something of owner o.
func (w *twoTies) standsStillAt(op wire.Op, d time.Duration) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.s.picky = func(req *wire.Request) bool {
		if req.Op == op && req.Owner == "o" {
			w.s.nodes[0].stalls = time.Now().Add(d)
			w.s.picky = nil
		}
		return false
	}
}

// heldByOne has another client take what the lock holds as soon as the servers say that it is free, and fails if the
// lock counts as held for long after that.
func (w *twoTies) heldByOne(t *testing.T, other *Client) {
	t.Helper()
	for range 240 {
		pass(100 * time.Millisecond)
		if w.s.holds("o", Path{Path: in(1)}) {
			continue
		}
		theirs, err := other.TryLock(context.Background(), in(1))
		mustLock(t, theirs, err)
		pass(askedWithin + 500*time.Millisecond)
		if w.l.Err() == nil {
			t.Errorf("two hold %s: one of them for %v yet, the other under token %d",
				in(1), time.Until(w.l.Deadline()), theirs.Token())
		}
		must(t, theirs.Unlock())
		return
	}
	t.Error("it is held by its owner all the time: this shows nothing")
}
