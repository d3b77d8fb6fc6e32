package pathlockd

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestTwoBelieveInALock: as TestABindThatIsAskedAgainForNobody at a server: the answer to a Bind is lost with its
// connection, and its caller goes. On the next connection it is asked again, and its grace is what a lock has there.
// Then a proxy loses the server's side of the connection alone.
func TestTwoBelieveInALock(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	line := new(lossyLine)
	c, other := dial(t, server(t), WithDialer(line.dial)), dial(t, server(t))
	p := path(t, "/a/p")
	line.held.Lock()
	short, leave := context.WithCancel(ctx)
	bound := make(chan error, 1)
	go func() {
		_, err := c.Bind(short, "me", 100*time.Millisecond, time.Hour)
		bound <- err
	}()
	time.Sleep(200 * time.Millisecond) // it is carried out
	leave()
	if err := <-bound; !errors.Is(err, ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	line.cut()
	line.held.Unlock()
	must(t, c.Ping(ctx)) // on the next connection, where the Bind is answered: locks asked for before that know of it
	eventually(t, "that the Bind is answered", func() bool { return c.underway("me") == 0 })
	mine, err := c.Lock(ctx, p, Owner("me"))
	mustLock(t, mine, err)
	line.held.Lock() // the client hears nothing from here on
	defer line.held.Unlock()
	line.mu.Lock()
	for _, lc := range line.made {
		lc.Conn.Close() // and the server sees the end of the connection
	}
	line.mu.Unlock()
	theirs, err := other.Lock(within(t, 5*time.Second), p)
	if err != nil {
		t.Fatalf("the server has not ended it, and this shows nothing: %v", err)
	}
	if err := mine.Err(); err == nil {
		t.Errorf("two hold %s: one of them for %v yet, the other under token %d",
			p, time.Until(mine.Deadline()), theirs.Token())
	}
}
