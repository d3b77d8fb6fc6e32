package pathlockd

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/loop"
)

// adv8Line is a dialer that can be cut: what it made ends, and it makes nothing more until it is mended.
type adv8Line struct {
	mu   sync.Mutex
	off  bool
	made []net.Conn
}

func (l *adv8Line) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.off {
		return nil, errors.New("the line is cut")
	}
	nc, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err == nil {
		l.made = append(l.made, nc)
	}
	return nc, err
}

func (l *adv8Line) set(off bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.off = off
	for _, nc := range l.made {
		nc.Close()
	}
	l.made = nil
}

// TestAdv8StaleUnlockOfAnEarlierSession: a lock is lost as its client was away, and its session is over; its owner, whose
// lease another client of it kept, takes the path again and is answered the same token ("an owner that writes all the
// paths already, under one token, keeps that"). Unlock of the lost lock then releases by owner and token alone, and so gives
// the later lock away while it is believed in: against Unlock's and decision 0022's "nothing that was asked for since goes with it",
// PROTOCOL.md's "what comes late does not give back the owner's next lock", and design.md's promise 1 as clients see it.
func TestAdv8StaleUnlockOfAnEarlierSession(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	addr := server(t)
	// The same node with a listener that remembers sessions for a second.
	short, err := loop.New(shared.n.node, loop.Options{NodeID: shared.n.node.NodeID(), ClusterID: shared.n.node.ClusterID(), RepeatMillis: 1000})
	must(t, err)
	defer short.Close()
	at, err := short.Listen("tcp", freeAddr(t))
	must(t, err)

	line := new(adv8Line)
	c := dial(t, at.String(), WithDialer(line.dial), WithGrace(time.Hour), WithOneConnection())
	mate, stranger := dial(t, addr, WithGrace(time.Hour)), dial(t, addr)
	p, q := path(t, "/a/p"), path(t, "/a/q")

	keeps, err := mate.TryLock(ctx, q, Owner("me"), TTL(time.Hour)) // the owner's lease lasts
	mustLock(t, keeps, err)
	const ttl = 2 * time.Second
	first, err := c.TryLock(ctx, p, Owner("me"), TTL(ttl))
	mustLock(t, first, err)

	line.set(true)
	eventually(t, "the loss of the first lock", func() bool { return first.Err() != nil })
	line.set(false)

	second, err := c.TryLock(ctx, p, Owner("me"), TTL(time.Hour))
	mustLock(t, second, err)
	time.Sleep(2 * watchAfter) // its events are told, and what its owner holds
	must(t, second.Err())
	t.Logf("tokens %d and %d", first.Token(), second.Token())

	if err := first.Unlock(); !IsLost(err) { // as a deferred one does
		t.Fatalf("Unlock of the lost lock: %v", err)
	}
	for end := time.Now().Add(watchAfter); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		theirs, err := stranger.TryLock(ctx, p)
		if err != nil {
			continue
		}
		time.Sleep(watchAfter)
		must(t, theirs.Err())
		if second.Err() == nil {
			t.Fatalf("two owners hold %s: %s, token %d, and me, token %d, sure of it for %v more, whose earlier lock was unlocked",
				p, theirs.Owner(), theirs.Token(), second.Token(), time.Until(second.Deadline()).Round(time.Second))
		}
		return
	}
	must(t, second.Err())
}
