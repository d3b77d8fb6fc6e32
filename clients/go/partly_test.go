package pathlockd

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"
)

// lossyLine is a dialer on whose connections nothing comes to the client while it is held; cut ends them,
// and what was on its way is lost.
type lossyLine struct {
	held sync.RWMutex
	mu   sync.Mutex
	made []*lossyConn
}

type lossyConn struct {
	net.Conn
	l    *lossyLine
	gone bool // under held
}

func (l *lossyLine) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &lossyConn{Conn: nc, l: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made = append(l.made, c)
	return c, nil
}

func (c *lossyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.l.held.RLock()
	defer c.l.held.RUnlock()
	if c.gone {
		return 0, errors.New("the connection broke")
	}
	return n, err
}

// cut is called while it is held.
func (l *lossyLine) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.made {
		c.gone = true
		c.Close()
	}
	l.made = nil
}

// TestALockThatIsLostInPartHoldsNothing: while a lock of two paths is asked for, another lock of its owner gives one of
// them back, and somebody else takes that. It is granted, or the answer to that is lost and its repeat says LOST.
// The client asks anew, and is refused: the other path is not held then.
func TestALockThatIsLostInPartHoldsNothing(t *testing.T) {
	for name, cut := range map[string]bool{"granted": false, "lost": true} {
		t.Run(name, func(t *testing.T) { loseAPart(t, cut) })
	}
}

func loseAPart(t *testing.T, cut bool) {
	t.Parallel()
	ctx := within(t, patience)
	line := new(lossyLine)
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
	if cut {
		line.cut()
	}
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
			t.Fatalf("the caller was told %q, and %s is held by %v", mine.err, q, i.ReadOwners)
		}
	}
}
