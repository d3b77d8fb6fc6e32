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

// TestAReleaseOfAForgottenSessionIsNotCarriedOutAgain: a read lock is unlocked, which is carried out, but the answer is lost with the
// connection, and until there is another one the servers forget the session. Meanwhile another client of the owner has taken the path
// anew. The release is not sent again, as nothing tells that later lock from the first.
func TestAReleaseOfAForgottenSessionIsNotCarriedOutAgain(t *testing.T) {
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
	mate, stranger := dial(t, addr, WithGrace(time.Hour)), dial(t, addr)
	p, me := path(t, "/a/p"), t.Name()
	readers := func() int {
		i, err := stranger.InspectPath(ctx, p)
		must(t, err)
		return len(i.ReadOwners)
	}
	mine, err := c.TryRLock(ctx, p, Owner(me), TTL(time.Hour))
	mustLock(t, mine, err)

	way.held.Lock()
	down.Store(true)
	freed := make(chan error, 1)
	go func() { freed <- mine.Unlock() }()
	eventually(t, "the release", func() bool { return readers() == 0 })
	way.cut() // its answer is lost
	way.held.Unlock()
	later, err := mate.TryRLock(ctx, p, Owner(me), TTL(time.Hour))
	mustLock(t, later, err)
	time.Sleep(2 * time.Second) // the session is forgotten
	down.Store(false)

	<-freed
	for end := time.Now().Add(3 * watchAfter); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if theirs, err := stranger.TryLock(ctx, p); err == nil {
			must(t, later.Err())
			t.Fatalf("%s writes %s, and the other client's later lock is sure for %v more", theirs.Owner(), p,
				time.Until(later.Deadline()).Round(time.Second))
		}
	}
	must(t, later.Err())
}
