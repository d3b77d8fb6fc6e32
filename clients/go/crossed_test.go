package pathlockd

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// slowLine is a dialer on whose connections nothing comes to the client while it is held.
type slowLine struct{ held sync.RWMutex }

type slowConn struct {
	net.Conn
	l *slowLine
}

func (l *slowLine) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &slowConn{nc, l}, nil
}

func (c *slowConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.l.held.RLock()
	defer c.l.held.RUnlock()
	return n, err
}

type takenLock struct {
	l   *Lock
	err error
}

// TestUnlockMeetsALockThatIsAsked: two locks of one owner on one path are one, which either gives back. Who
// is told to have the second one after the first was given back does not believe in it.
func TestUnlockMeetsALockThatIsAsked(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	line := new(slowLine)
	c, other := dial(t, server(t), WithDialer(line.dial), WithGrace(patience)), dial(t, server(t))
	p := path(t, "/a/b")
	const ttl = time.Hour
	first, err := c.TryLock(ctx, p, Owner("me"))
	mustLock(t, first, err)

	line.held.Lock() // the server's answers are on their way for a while
	second, freed := make(chan takenLock, 1), make(chan error, 1)
	go func() {
		l, err := c.TryLock(ctx, p, Owner("me"), TTL(ttl))
		second <- takenLock{l, err}
	}()
	eventually(t, "the second lock", func() bool {
		d, err := other.Describe(ctx, p, 1)
		must(t, err)
		return len(d.Holders) > 0 && d.Holders[0].ExpiresInMillis > uint64(ttl.Milliseconds()/2)
	})
	go func() { freed <- first.Unlock() }()
	theirs, err := other.Lock(ctx, p) // once the release was carried out
	mustLock(t, theirs, err)
	line.held.Unlock()

	must(t, <-freed)
	mine := <-second
	if mine.err != nil {
		return // so it is not believed in
	}
	told := time.Now()
	for mine.l.Err() == nil && time.Since(told) < watchAfter/2 {
		time.Sleep(time.Millisecond)
	}
	if err := mine.l.Err(); err == nil {
		must(t, theirs.Err())
		t.Fatalf("two owners hold %s for %v: %s, sure of it for %v more, and %s", p,
			time.Since(told).Round(time.Millisecond), mine.l.Owner(), time.Until(mine.l.Deadline()).Round(time.Second),
			theirs.Owner())
	}
}
