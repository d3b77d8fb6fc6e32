package pathlockd

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// TestAPermitWithATokenIsNotGivenBackTwice: as TestAReleaseOfAForgottenSessionIsNotCarriedOutAgain, but of a permit that was taken with
// Token. A server lets a permit go whatever token a release names, so that does not tell it from a later one.
func TestAPermitWithATokenIsNotGivenBackTwice(t *testing.T) {
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
	must(t, stranger.SetNamespacePolicy(ctx, path(t, "/a"), wire.Semaphore, ""))
	holders := func() int {
		i, err := stranger.InspectPath(ctx, p)
		must(t, err)
		return len(i.SemaphoreOwners)
	}
	mine, err := c.TrySemaphore(ctx, p, 1, Owner(me), TTL(time.Hour), Token(7))
	mustLock(t, mine, err)

	way.held.Lock()
	down.Store(true)
	freed := make(chan error, 1)
	go func() { freed <- mine.UnlockContext(ctx) }()
	eventually(t, "the release", func() bool { return holders() == 0 })
	way.cut() // its answer is lost
	way.held.Unlock()
	later, err := mate.TrySemaphore(ctx, p, 1, Owner(me), TTL(time.Hour))
	mustLock(t, later, err)
	time.Sleep(2 * time.Second) // the session is forgotten
	down.Store(false)

	<-freed
	for end := time.Now().Add(3 * watchAfter); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if theirs, err := stranger.TrySemaphore(ctx, p, 1); err == nil {
			must(t, later.Err())
			t.Fatalf("%s has the one permit of %s, and the other client's later lock is sure for %v more", theirs.Owner(), p,
				time.Until(later.Deadline()).Round(time.Second))
		}
	}
	must(t, later.Err())
}
