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

// TestAReleaseWhoseUnlockGaveUpIsNotCarriedOutAgain: as TestAReleaseOfAForgottenSessionIsNotCarriedOutAgain, but Unlock's time is over
// before the session is forgotten, and the release goes on in the background.
func TestAReleaseWhoseUnlockGaveUpIsNotCarriedOutAgain(t *testing.T) {
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
	unlocking, cancel := context.WithTimeout(ctx, 500*time.Millisecond) // Unlock has 5 s, of a minute
	defer cancel()
	go func() { freed <- mine.UnlockContext(unlocking) }()
	eventually(t, "the release", func() bool { return readers() == 0 })
	way.cut() // its answer is lost
	way.held.Unlock()
	<-freed // nobody waits for it any more
	later, err := mate.TryRLock(ctx, p, Owner(me), TTL(time.Hour))
	mustLock(t, later, err)
	time.Sleep(2 * time.Second) // the session is forgotten
	down.Store(false)

	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if theirs, err := stranger.TryLock(ctx, p); err == nil {
			must(t, later.Err())
			t.Fatalf("%s writes %s, and the other client's later lock is sure for %v more", theirs.Owner(), p,
				time.Until(later.Deadline()).Round(time.Second))
		}
	}
	must(t, later.Err())
}
