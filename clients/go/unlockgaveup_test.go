package pathlockd

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/loop"
)

// TestAnUnlockThatGaveUpGoesOn: Unlock of a held lock whose owner the program names does not reach the server in its time, and before
// the release in the background does, the session that took the lock is forgotten. It goes by the token then.
func TestAnUnlockThatGaveUpGoesOn(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	addr := server(t)
	short, err := loop.New(shared.n.node, loop.Options{ // remembers sessions for a second
		NodeID: shared.n.node.NodeID(), ClusterID: shared.n.node.ClusterID(), RepeatMillis: 1000,
	})
	must(t, err)
	t.Cleanup(func() { short.Close() })
	at, err := short.Listen("tcp", freeAddr(t))
	must(t, err)

	way := new(lossyLine)
	var down atomic.Bool
	c := dial(t, at.String(), WithGrace(time.Hour), WithOneConnection(), WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		if down.Load() {
			return nil, errors.New("there is no way")
		}
		return way.dial(ctx, network, addr)
	}))
	other := dial(t, addr)
	p, me := path(t, "/a/p"), t.Name()
	t.Cleanup(func() { _ = other.ForceRelease(context.Background(), me, "") })
	owns := func() string {
		i, err := other.InspectPath(ctx, p)
		must(t, err)
		return i.WriteOwner
	}
	mine, err := c.TryLock(ctx, p, Owner(me), TTL(time.Hour))
	mustLock(t, mine, err)

	down.Store(true)
	way.cut()
	must(t, mine.Err())
	unlocking, cancel := context.WithTimeout(ctx, 500*time.Millisecond) // Unlock has 5 s, of a minute
	defer cancel()
	if err := mine.UnlockContext(unlocking); err == nil || IsLost(err) {
		t.Fatalf("Unlock without a connection: %v", err)
	}
	time.Sleep(2 * time.Second) // the session is forgotten
	down.Store(false)
	must(t, c.Ping(ctx))
	for began := time.Now(); owns() != ""; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 5*time.Second {
			t.Fatalf("5 s after the client is connected again, %s is locked by %q still, for the rest of an hour", p, owns())
		}
	}
}
