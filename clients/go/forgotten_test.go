package pathlockd

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/loop"
)

// TestUnlockOfALockOfAnEarlierSession: a lock is lost as its client was away, and servers have forgotten its
// session. Its owner, whose lease another client kept, takes the path again and is answered the same token. Unlock
// of the lost lock does not give the later one away.
func TestUnlockOfALockOfAnEarlierSession(t *testing.T) {
	for name, opts := range map[string][]LockOption{
		"an owner that the program names": {Owner("me")},
		"an owner that it names later":    nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, patience)
			addr := server(t)
			// The same node with a listener that remembers sessions for a second.
			short, err := loop.New(shared.n.node, loop.Options{
				NodeID: shared.n.node.NodeID(), ClusterID: shared.n.node.ClusterID(), RepeatMillis: 1000,
			})
			must(t, err)
			t.Cleanup(func() { short.Close() })
			at, err := short.Listen("tcp", freeAddr(t))
			must(t, err)

			way := new(line)
			c := dial(t, at.String(), WithDialer(way.dial), WithGrace(time.Hour), WithOneConnection())
			mate, stranger := dial(t, addr, WithGrace(time.Hour)), dial(t, addr)
			p, q := path(t, "/a/p"), path(t, "/a/q")
			first, err := c.TryLock(ctx, p, append(opts, TTL(2*time.Second))...)
			mustLock(t, first, err)
			me := Owner(first.Owner())
			keeps, err := mate.TryLock(ctx, q, me, TTL(time.Hour)) // the owner's lease lasts
			mustLock(t, keeps, err)

			way.cut(errUnreachable)
			eventually(t, "the loss of the first lock", func() bool { return first.Err() != nil })
			way.mend()

			second, err := c.TryLock(ctx, p, me, TTL(time.Hour))
			mustLock(t, second, err)
			if first.Token() != second.Token() {
				t.Fatalf("tokens %d and %d", first.Token(), second.Token())
			}
			eventually(t, "that it was told what the owner holds", func() bool {
				c.keeper.mu.Lock()
				defer c.keeper.mu.Unlock()
				return second.lease == nil || second.lease.watched && !second.lease.doubt && !second.lease.looking
			})
			must(t, second.Err())
			if err := first.Unlock(); !IsLost(err) { // as a deferred one does
				t.Fatalf("Unlock of the lost lock: %v", err)
			}
			for end := time.Now().Add(watchAfter); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				if theirs, err := stranger.TryLock(ctx, p); err == nil {
					t.Fatalf("%s has %s: %v; the later lock is sure for %v more", theirs.Owner(), p, second.Err(),
						time.Until(second.Deadline()).Round(time.Second))
				}
			}
			must(t, second.Err())
		})
	}
}
