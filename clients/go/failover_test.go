package pathlockd

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// proxy is another way to a server, which a test can close.
type proxy struct {
	addr string
	l    net.Listener
	mu   sync.Mutex
	open map[net.Conn]bool // nil: it is closed
	done sync.WaitGroup
}

// newProxy listens for connections to a server.
func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxy{addr: l.Addr().String(), l: l, open: make(map[net.Conn]bool)}
	p.done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.done.Go(func() { p.carry(c, to) })
		}
	})
	t.Cleanup(func() { p.close(); p.done.Wait() })
	return p
}

func (p *proxy) carry(c net.Conn, to string) {
	defer c.Close()
	s, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer s.Close()
	p.mu.Lock()
	closed := p.open == nil
	if !closed {
		p.open[c], p.open[s] = true, true
	}
	p.mu.Unlock()
	if closed {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(c, s) // its end is all there is to know
		c.Close()
	})
	_, _ = io.Copy(s, c)
	s.Close()
	back.Wait()
}

// close cuts all connections and takes no more.
func (p *proxy) close() {
	p.l.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		c.Close()
	}
	p.open = nil
}

// TestTheNextAddress: a client whose way to the server is cut goes on by the next, with
// its session: what is open is answered, who waits keeps the place, locks stay.
func TestTheNextAddress(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	addr := server(t)
	one, two := newProxy(t, addr), newProxy(t, addr)
	c := dial(t, one.addr+","+two.addr, WithGrace(patience)) // it is for a busy machine
	other := dial(t, addr)
	held, err := c.Lock(ctx, path(t, "/held"))
	must(t, err)
	blocker, err := other.Lock(ctx, path(t, "/wanted"))
	must(t, err)
	queued, waited := make(chan struct{}, 8), make(chan *Lock, 1)
	go func() {
		l, err := c.Lock(ctx, path(t, "/wanted"), OnQueued(func(Queued) { queued <- struct{}{} }))
		if err != nil {
			t.Error(err)
		}
		waited <- l
	}()
	<-queued
	// Behind the waiter; it must not overtake it.
	late := make(chan *Lock, 1)
	go func() {
		l, err := other.Lock(ctx, path(t, "/wanted"), OnQueued(func(Queued) { queued <- struct{}{} }))
		if err != nil {
			t.Error(err)
		}
		late <- l
	}()
	<-queued
	first, err := c.IncrFencingToken(ctx, "")
	must(t, err)
	const many = 100
	tokens := make(chan int64, many)
	for range many {
		c.Go(&wire.Request{Op: wire.OpIncrToken}, func(res *wire.Result, err error) {
			if err != nil {
				t.Error(err)
				tokens <- 0
				return
			}
			tokens <- res.Token
		})
	}
	before := held.Deadline()
	one.close()
	seen := make(map[int64]bool)
	for range many {
		seen[<-tokens] = true
	}
	if last, err := c.IncrFencingToken(ctx, ""); err != nil || len(seen) != many || last < first+many+1 {
		t.Fatalf("%d different numbers after %d, then %d, %v", len(seen), first, last, err)
	}
	if got := c.ServerInfo().Address; got != two.addr {
		t.Fatalf("connected to %s, want %s", got, two.addr)
	}
	eventually(t, "a renewal by the other way", func() bool { return held.Deadline().After(before) })
	must(t, held.Err())
	must(t, blocker.Unlock())
	l := <-waited
	select {
	case <-late:
		t.Fatal("the later waiter came first")
	default:
	}
	must(t, l.Unlock())
	must(t, (<-late).Unlock())
	must(t, held.Unlock())
}

// TestAnAddressItWasToldOf: when every address that it was given is gone, the client
// goes on at those that the servers told of.
func TestAnAddressItWasToldOf(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	n := newNode(t)
	p := newProxy(t, n.addr)
	c := dial(t, p.addr, WithGrace(patience))
	l, err := c.Lock(ctx, "a:/b/c")
	must(t, err)
	eventually(t, "the topology", func() bool { return len(c.router.addresses()) == 2 })
	p.close()
	must(t, c.Ping(ctx))
	if got := c.ServerInfo().Address; got != n.addr {
		t.Fatalf("connected to %s, want %s", got, n.addr)
	}
	must(t, l.Err())
	must(t, l.Unlock())
}

// TestAnotherCluster: an address that was not given by the user and leads to a server
// of another cluster is not used.
func TestAnotherCluster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFakeCluster(t, 3, 0, 1, 0, 0)
		f.foreign = "n1"
		c := f.client()
		f.warm(c)
		if n := f.goes(c, 1); n != "n0" {
			t.Fatalf("went to %s", n)
		}
		f.kill("n0")
		if n := f.goes(c, 0); n != "n2" {
			t.Fatalf("went to %s", n)
		}
		for _, a := range f.arrived {
			if a.node == "n1" {
				t.Fatalf("another cluster got %v", a.req.Op)
			}
		}
	})
}

// TestAnUnreachableAddress: one that answers nothing delays the client by its head start.
func TestAnUnreachableAddress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		go func() { f.open().serveAll() }()
		black := func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == "black:1" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return f.dial(ctx, network, addr)
		}
		began := time.Now()
		c := dial(t, "black:1,fake:1", WithDialer(black))
		if d := time.Since(began); d != headStart {
			t.Fatalf("connected after %v, want %v", d, headStart)
		}
		must(t, c.Ping(context.Background()))
	})
}

// TestNodesThatHang take connections and answer nothing. While there is one that does
// answer they cost their head starts, and no lock.
func TestNodesThatHang(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		f.addr = "a:1,b:1,c:1"
		hang := func(string) bool { return false }
		var last net.Conn
		c, p := f.client(WithGrace(time.Second),
			WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
				if hang(addr) {
					client, server := net.Pipe()
					go io.Copy(io.Discard, server)
					t.Cleanup(func() { server.Close() })
					return client, nil
				}
				conn, err := f.dial(ctx, network, addr)
				last = conn
				return conn, err
			}))
		p.serveAll()
		f.serveNext(func(a *asked) *wire.Result { return granted(a.req) })
		l, err := c.Lock(context.Background(), "a:/b/c")
		mustLock(t, l, err)
		pass(time.Minute)
		hang = func(addr string) bool { return addr != "c:1" }
		last.Close()
		pass(2*headStart + time.Millisecond)
		if err := c.home.linkError(); err != nil {
			t.Fatalf("not connected again: %v", err)
		}
		pass(time.Minute)
		must(t, l.Err())
	})
}

// TestARepeatThatIsRefused: UNAVAILABLE says of a repeat that it was not done again,
// and nothing of the first time. So it goes on under its id.
func TestARepeatThatIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		done := doing(context.Background(), c, &wire.Request{Op: wire.OpForceRelease, Owner: "o"})
		first := p.want(wire.OpForceRelease)
		p.Close()
		p = f.open()
		for range 3 {
			if again := p.want(wire.OpForceRelease); again.id != first.id {
				t.Fatalf("request %d was asked again as %d", first.id, again.id)
			} else {
				p.refuse(again, wire.Unavailable)
			}
		}
		last := p.want(wire.OpForceRelease)
		p.ok(last)
		must(t, (<-done).err)
		if last.id != first.id {
			t.Fatalf("request %d was asked again as %d", first.id, last.id)
		}
		// A request that was asked once is asked anew.
		done = doing(context.Background(), c, &wire.Request{Op: wire.OpForceRelease, Owner: "o"})
		once := p.want(wire.OpForceRelease)
		p.refuse(once, wire.Unavailable)
		if again := p.want(wire.OpForceRelease); again.id == once.id {
			t.Fatal("what was not done is repeated under its id")
		} else {
			p.ok(again)
		}
		must(t, (<-done).err)
	})
}

// TestARepeatThatIsRefusedForLong ends with an unknown outcome, when the server may
// have forgotten the session.
func TestARepeatThatIsRefusedForLong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		done := doing(context.Background(), c, &wire.Request{Op: wire.OpForceRelease, Owner: "o"})
		p.want(wire.OpForceRelease)
		p.Close()
		p = f.open()
		go p.serve(func(*asked) *wire.Result { return &wire.Result{Code: wire.Unavailable, Message: "not now"} })
		if err := (<-done).err; !errors.Is(err, ErrOutcomeUnknown) {
			t.Fatalf("got %v", err)
		}
	})
}
