package pathlockd

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// What becomes of leases when their connection breaks.

// graceFor is how long a lease is sure after its connection broke.
const graceFor = DefaultGrace - DefaultGrace/marginShare - DefaultGrace/driftShare

// onLine answers a client of f whose connections go over a line.
func onLine(f *fake, opts ...Option) (*Client, *peer, *line) {
	way := &line{dialer: f.dial}
	c, p := f.client(append([]Option{WithGrace(DefaultGrace), WithDialer(way.dial)}, opts...)...)
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
		if first.req.Op != wire.OpRenew || first.req.Flags != keepFlags {
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

// TestAProxyThatDiesExcusesNothing: that nobody listens any more where a connection led
// to says nothing of the server, which may live on behind a proxy that has gone.
func TestAProxyThatDiesExcusesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p, way := onLine(f)
		broke := time.Now()
		l := lockWith(t, c, p)
		way.fail(errNobody)
		p.Close()
		lostAt(t, l, broke.Add(graceFor), ErrUncertain)
	})
}

// TestTheGraceIsCountedFromTheLastSignOfLife, and not from when the client notices that
// the connection is gone.
func TestTheGraceIsCountedFromTheLastSignOfLife(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		var last atomic.Value // time.Time when the last request that is answered arrives, which is when it is sent
		var deaf atomic.Bool
		c, p, _ := onLine(f, WithKeepAlive(time.Hour))
		l := held(t, c, p, func(a *asked) (*wire.Result, bool) {
			if !deaf.Load() {
				last.Store(a.at)
			}
			return nil, deaf.Load()
		}, TTL(time.Hour))
		pass(time.Minute)
		must(t, l.Err())
		if silent := time.Since(last.Load().(time.Time)); silent > DefaultGrace/probes+time.Second {
			t.Fatalf("the server was asked for nothing for %v", silent)
		}
		deaf.Store(true)                                      // as behind a proxy that has lost the server
		f.serveNext(func(*asked) *wire.Result { return nil }) // they say welcome, and no more than that
		lostAt(t, l, last.Load().(time.Time).Add(graceFor), ErrUncertain)
	})
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

// TestLockOfAnEarlierConnection: whoever is told of a grant when its connection is gone
// already, and the next one there, has the lock for the grace after the last sign of life
// of the first, or until it is renewed.
func TestLockOfAnEarlierConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour), WithGrace(DefaultGrace))
		sent, first, began := c.now(), c.home.tie, time.Now()
		pass(time.Second)
		p.Close()
		p = f.open()
		back := time.Now()
		pass(0)
		l := &Lock{c: c, owner: "o", namespace: "a:/b", paths: []Path{{Path: "a:/b/c"}}, ttl: DefaultTTL}
		must(t, c.keeper.hold(l, &answer{tie: first, sent: sent}))
		if d := l.Deadline().Sub(began); d != graceFor {
			t.Fatalf("sure for %v, want %v", d, graceFor)
		}
		p.ok(p.want(wire.OpRenew))
		pass(0)
		if d := l.Deadline().Sub(back); d != graceFor {
			t.Fatalf("after its renewal sure for %v, want %v", d, graceFor)
		}
	})
}

// TestAHelloThatIsNotAnswered: a server says goodbye, so a lease keeps its TTL. The client says hello to the next one,
// which hears it: from then on the lease hangs on that connection. A proxy loses the server's side of it, and the
// client waits for its welcome.
func TestAHelloThatIsNotAnswered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const grace = time.Second
		f := newFake(t)
		c, p := f.client(WithGrace(grace), WithDialTimeout(10*time.Second))
		l := lockWith(t, c, p, TTL(time.Hour))
		p.send(wire.AppendGoodbye(nil, wire.Errorf(wire.Unavailable, "the server stops")))
		p.Close()
		f.accept() // which reads the hello
		said := time.Now()
		lostAt(t, l, said.Add(grace-margin(grace)), ErrUncertain)
	})
}
