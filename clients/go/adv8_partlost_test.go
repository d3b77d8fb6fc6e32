package pathlockd

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"
)

// adv8Lossy is a dialer on whose connections nothing comes to the client while it is held; cut ends them, and what was
// on its way is lost.
type adv8Lossy struct {
	held sync.RWMutex
	mu   sync.Mutex
	made []*adv8LossyConn
}

type adv8LossyConn struct {
	net.Conn
	l    *adv8Lossy
	gone bool // under held
}

func (l *adv8Lossy) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &adv8LossyConn{Conn: nc, l: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made = append(l.made, c)
	return c, nil
}

func (c *adv8LossyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.l.held.RLock()
	defer c.l.held.RUnlock()
	if c.gone {
		return 0, errors.New("the connection broke")
	}
	return n, err
}

// cut is called while it is held.
func (l *adv8Lossy) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.made {
		c.gone = true
		c.Close()
	}
	l.made = nil
}

// TestAdv8LostLockOfSeveralPathsHoldsNothing: the answer to an acquire of two paths is lost with its connection, and one of them was
// given back meanwhile by another lock of its owner. Its repeat is answered LOST, which says that not all is held any more; the client
// takes that for nothing, asks anew, and is refused: the caller gets a ConflictError, and the other path stays locked for the grace, or for as
// long as its owner holds anything else there, with nobody who knows of it. That breaks LockAll's and PROTOCOL.md's "takes all the paths or none".
func TestAdv8LostLockOfSeveralPathsHoldsNothing(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	line := new(adv8Lossy)
	c, other := dial(t, server(t), WithDialer(line.dial), WithGrace(patience)), dial(t, server(t))
	p, q := path(t, "/a/p"), path(t, "/a/q")
	const ttl = time.Hour
	first, err := c.TryLock(ctx, p, Owner("me"))
	mustLock(t, first, err)

	eventually(t, "that it is known since when the path is held", func() bool {
		c.keeper.mu.Lock()
		defer c.keeper.mu.Unlock()
		return first.since != nil
	})
	line.held.Lock()
	second, freed := make(chan takenLock, 1), make(chan error, 1)
	go func() {
		l, err := c.TryLockAll(ctx, []Path{{Path: p}, {Path: q, Mode: Read}}, Owner("me"), TTL(ttl))
		second <- takenLock{l, err}
	}()
	eventually(t, "the second lock", func() bool {
		i, err := other.InspectPath(ctx, q)
		must(t, err)
		return len(i.ReadOwners) > 0
	})
	go func() { freed <- first.Unlock() }()
	theirs, err := other.Lock(ctx, p) // once the release was carried out
	mustLock(t, theirs, err)
	line.cut()
	line.held.Unlock()

	must(t, <-freed)
	mine := <-second
	if mine.err == nil {
		t.Fatalf("two owners hold %s", p)
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		i, err := other.InspectPath(ctx, q)
		must(t, err)
		if len(i.ReadOwners) == 0 {
			return
		}
		if time.Since(began) > 3*time.Second {
			locks, _, err := other.ListOwnerLocks(ctx, "me")
			must(t, err)
			t.Fatalf("the caller was told %q, and %v later %s is held by %v for %v more", mine.err, time.Since(began).Round(time.Second), q,
				i.ReadOwners, time.Duration(locks[0].ExpiresInMillis)*time.Millisecond)
		}
	}
}
