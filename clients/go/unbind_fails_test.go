package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// Ends has the server see the end of what the line leads through, and the client nothing of it.
func Ends(line *lossyLine) {
	line.held.Lock() // the client hears nothing from here on
	line.mu.Lock()
	defer line.mu.Unlock()
	for _, lc := range line.made {
		lc.Conn.Close() // and the server sees the end of the connection
	}
}

// TestAnUnbindThatIsNotSent: an owner is bound with a short grace. The program unbinds it, with a context that has
// ended before: the error says that nothing was sent, so the owner is bound as before ("Until it is known what became
// of a Bind or Unbind, at the latest on the next connection, the lower of the two graces counts"). A lock is taken
// after that. Then a proxy loses the server's side of the connection alone.
func TestAnUnbindThatIsNotSent(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	line := new(lossyLine)
	c, other := dial(t, server(t), WithDialer(line.dial)), dial(t, server(t))
	p := path(t, "/a/p")
	if _, err := c.Bind(ctx, t.Name(), 100*time.Millisecond, 0); err != nil {
		t.Fatal(err)
	}
	over, end := context.WithCancel(ctx)
	end()
	if err := c.Unbind(over, t.Name()); err == nil {
		t.Fatal("unbound")
	}
	mine, err := c.Lock(ctx, p, Owner(t.Name()), TTL(time.Hour))
	mustLock(t, mine, err)
	time.Sleep(300 * time.Millisecond)
	Ends(line)
	defer line.held.Unlock()
	theirs, err := other.Lock(within(t, 5*time.Second), p)
	if err != nil {
		t.Fatalf("the server has not ended it, and this shows nothing: %v", err)
	}
	if err := mine.Err(); err == nil {
		t.Errorf("two hold %s: one of them for %v yet, the other under token %d", p, time.Until(mine.Deadline()),
			theirs.Token())
	}
}

// TestAnUnbindThatIsRefused: likewise, while no server takes an Unbind (UNAVAILABLE, as while a log has no leader) for
// as long as its context lasts. The owner is bound on that connection as before, and so are the graces of its leases,
// also of one that it has had all along.
func TestAnUnbindThatIsRefused(t *testing.T) {
	const short = 200 * time.Millisecond
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p, _ := onLine(f)
		bind(t, c, p, "o", short, 0)
		l := lockWith(t, c, p, Owner("o"), TTL(time.Hour))
		if d := time.Until(l.Deadline()); d > short {
			t.Fatalf("sure for %v", d)
		}
		go p.serve(func(a *asked) *wire.Result {
			if a.req.Op == wire.OpUnbind {
				return &wire.Result{Code: wire.Unavailable, Message: "no leader; nothing was done"}
			}
			return granted(a.req)
		})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := c.Unbind(ctx, "o")
		if err == nil {
			t.Fatal("unbound")
		}
		t.Log(err)
		pass(time.Second)
		if d := time.Until(l.Deadline()); d > short {
			t.Errorf("the owner is bound with a grace of %v; a lock counts as sure for %v with nothing heard", short, d)
		}
	})
}
