package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestAnUnbindIsLeft: TestAnUnbindLeavesAnotherTie, but that the Unbind takes a second (an acquire of its owner in
// another namespace is ahead of it, or a log has no leader for the moment), and its caller does not wait for so long:
// it is told that nobody knows (ErrOutcomeUnknown). The client renews the lease by the home lane at once, which is
// answered before the Unbind is carried out: "nothing else is ordered" (PROTOCOL.md, Order). From then on the lease
// hangs on the connection of the other lane alone, and the client counts it as tied to the home lane's.
func TestAnUnbindIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		defer pass(2 * simSilent)
		ctx := context.Background()
		w := tieTwice(t)
		other := w.client(t, "other", 3)
		w.s.mu.Lock()
		w.s.unbinds = time.Second
		w.s.mu.Unlock()
		short, leave := context.WithTimeout(ctx, 500*time.Millisecond)
		defer leave()
		if err := w.c.Unbind(short, "o"); !errors.Is(err, ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		pass(5 * time.Second)
		must(t, w.l.Err())
		if w.breakFar(t) {
			theirs, err := other.TryLock(ctx, in(1))
			mustLock(t, theirs, err)
			if err := w.l.Err(); err == nil {
				t.Errorf("two hold %s: one of them for %v yet, the other under token %d",
					in(1), time.Until(w.l.Deadline()), theirs.Token())
			} else {
				t.Errorf("one of two connections broke, and the client has lost a lock: %v", err)
			}
			must(t, theirs.Unlock())
		}
		w.end(t, other)
	})
}

// TestALockWaitedForBesideAnUnbind: an Unbind is left, and nobody knows what became of it. A lock of its owner is asked
// for after that, and waits for longer than the owner's grace. There is another connection, by which nothing goes but a
// wait. Nothing is wrong with either: the lock that is handed out is held.
func TestALockWaitedForBesideAnUnbind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		defer pass(time.Minute)
		ctx := context.Background()
		w := tieTwice(t)
		other := w.client(t, "other", 3)
		blocked, err := other.Lock(ctx, in(1)+"2")
		mustLock(t, blocked, err)
		go func() {
			l, err := w.c.Lock(ctx, in(1)+"2")
			mustLock(t, l, err)
			must(t, l.Unlock())
		}()
		pass(time.Second)
		must(t, w.l.Unlock())
		_, err = w.c.Bind(ctx, "o", time.Second, 0)
		must(t, err)
		w.s.mu.Lock()
		w.s.unbinds = 30 * time.Second
		w.s.mu.Unlock()
		short, leave := context.WithTimeout(ctx, 500*time.Millisecond)
		defer leave()
		if err := w.c.Unbind(short, "o"); !errors.Is(err, ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		theirs, err := other.Lock(ctx, in(1))
		mustLock(t, theirs, err)
		time.AfterFunc(8*time.Second, func() {
			must(t, w.c.Ping(ctx)) // a sign of life of the connection
			must(t, theirs.Unlock())
		})
		w.l, err = w.c.Lock(ctx, in(1), Owner("o"), TTL(5*time.Minute))
		mustLock(t, w.l, err)
		for range 50 {
			pass(100 * time.Millisecond)
			if err := w.l.Err(); err != nil {
				t.Fatalf("the connection is whole, and the lock that was granted is not held: %v", err)
			}
		}
		must(t, blocked.Unlock())
		pass(time.Second)
		w.end(t, other)
	})
}
