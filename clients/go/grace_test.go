package pathlockd

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// What becomes of leases when their connection breaks.

// graceFor is how long a lease is sure after its connection broke.
const graceFor = DefaultGrace - DefaultGrace/marginShare

// onLine answers a client of f whose connections go over a line.
func onLine(f *fake, opts ...Option) (*Client, *peer, *line) {
	way := &line{dialer: f.dial}
	c, p := f.client(append(opts, WithDialer(way.dial))...)
	return c, p, way
}

// errUnreachable is what a dialer says when there is no way to the server.
var errUnreachable = errors.New("the line is cut")

func TestConnectionLossEndsALeaseAfterTheGrace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p, way := onLine(f)
		l := lockWith(t, c, p)
		broke := time.Now()
		way.cut(errUnreachable)
		lostAt(t, l, broke.Add(graceFor), ErrUncertain)
	})
}

func TestWithoutGraceALeaseEndsWithItsConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p, way := onLine(f, WithGrace(0))
		l := lockWith(t, c, p)
		way.cut(errUnreachable)
		pass(time.Millisecond)
		if err := l.Err(); !errors.Is(err, ErrUncertain) {
			t.Fatal(err)
		}
	})
}

func TestRenewalOnTheNextConnectionKeepsALease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p, way := onLine(f)
		l := lockWith(t, c, p)
		way.cut(errUnreachable)
		pass(time.Second / 2)
		way.mend()
		p = f.open()
		back := time.Now()
		first := p.next()
		if first.req.Op == wire.OpSubscribe { // when the pause before it was a long one
			p.ok(first)
			first = p.next()
		}
		if first.req.Op != wire.OpRenew || first.req.Flags != wire.FlagBind {
			t.Fatalf("the first on the next connection is %v, want a renewal", first.req.Op)
		}
		p.ok(first)
		p.serveAll()
		pass(time.Minute)
		must(t, l.Err())
		if l.Deadline().Before(back.Add(sureFor)) {
			t.Fatal("no renewal since")
		}
	})
}

func TestConnectionWithoutRenewalDoesNotKeepALease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p, _ := onLine(f)
		l := lockWith(t, c, p)
		p.Close()
		broke := time.Now()
		p = f.open()
		p.want(wire.OpRenew) // and no answer
		lostAt(t, l, broke.Add(graceFor), ErrUncertain)
	})
}

func TestServerThatDiesEndsNoLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p, way := onLine(f)
		began := time.Now()
		l := lockWith(t, c, p)
		way.fail(errNobody)
		p.Close()
		lostAt(t, l, began.Add(sureFor), ErrUncertain)
	})
}

func TestServerThatDiesLaterMayHaveEndedALease(t *testing.T) {
	for name, lose := range map[string]func(way *line, p *peer){
		"cut before": func(way *line, p *peer) {
			way.fail(errUnreachable)
			p.Close()
			pass(excuseWithin + time.Millisecond)
			way.fail(errNobody)
		},
		"given up by the client": func(way *line, p *peer) { way.cut(errNobody) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p, way := onLine(f)
				l := lockWith(t, c, p)
				broke := time.Now()
				lose(way, p)
				lostAt(t, l, broke.Add(graceFor), ErrUncertain)
			})
		})
	}
}

func TestServerThatSaysGoodbyeEndsNoLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p, way := onLine(f)
		began := time.Now()
		l := lockWith(t, c, p)
		way.fail(errNobody)
		p.send(wire.AppendGoodbye(nil, wire.Errorf(wire.Unavailable, "the server stops")))
		lostAt(t, l, began.Add(sureFor), ErrUncertain)
	})
}

func TestLockTakenAsTheConnectionBreaksIsConfirmed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		got := make(chan *Lock, 1)
		go func() {
			l, err := c.Lock(context.Background(), "a:/b/c")
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		first := p.want(wire.OpAcquire)
		p.Close() // it was carried out, and the answer is lost
		p = f.open()
		again := p.want(wire.OpAcquire)
		if again.id != first.id || again.raw != first.raw {
			t.Fatalf("asked again as %d %x, want %d %x", again.id, again.raw, first.id, first.raw)
		}
		p.ok(again)
		// The old connection may have shortened the lease: it is tied to this one first.
		renewal := p.want(wire.OpRenew)
		pass(0)
		if len(got) != 0 {
			t.Fatal("the lock was handed out unconfirmed")
		}
		p.ok(renewal)
		must(t, (<-got).Err())
	})
}

func TestCloseLosesLocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		l := lockWith(t, c, p)
		work := l.Context()
		c.Close()
		<-l.Lost()
		if err := context.Cause(work); !errors.Is(err, ErrClosed) || !IsLost(err) {
			t.Fatalf("cause: %v", err)
		}
		if err := l.Unlock(); !errors.Is(err, ErrClosed) {
			t.Fatalf("Unlock: %v", err)
		}
		if _, err := c.Lock(context.Background(), "a:/b/c"); !errors.Is(err, ErrClosed) {
			t.Fatalf("Lock on a closed client: %v", err)
		}
	})
}

// TestAnotherServerThatIsGoneExcusesNothing: that nobody listens at one address says
// nothing of the server at another.
func TestAnotherServerThatIsGoneExcusesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		f.addr = "a:1,b:2"
		lost := false
		c, p := f.client(WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			switch {
			case !lost:
				return f.dial(ctx, network, addr)
			case addr == "a:1":
				return nil, errUnreachable
			}
			return nil, errNobody
		}))
		l := lockWith(t, c, p)
		broke := time.Now()
		lost = true
		p.Close()
		lostAt(t, l, broke.Add(graceFor), ErrUncertain)
	})
}

// TestLockOfAnEarlierConnection: whoever is told of a grant when its connection is gone
// already, and the next one there, has the lock for the grace, or until it is renewed.
func TestLockOfAnEarlierConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		sent := c.now()
		p.Close()
		broke := time.Now()
		p = f.open()
		pass(0)
		l := &Lock{c: c, owner: "o", namespace: "a:/b", paths: []Path{{Path: "a:/b/c"}}, ttl: DefaultTTL}
		must(t, c.keeper.hold(l, &answer{on: 1, lane: c.home, sent: sent}))
		if d := l.Deadline().Sub(broke); d != graceFor {
			t.Fatalf("sure for %v, want %v", d, graceFor)
		}
		p.ok(p.want(wire.OpRenew))
		pass(0)
		if d := l.Deadline().Sub(broke); d != sureFor {
			t.Fatalf("after its renewal sure for %v, want %v", d, sureFor)
		}
	})
}
