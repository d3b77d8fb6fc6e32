package pathlockd

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pathlockd/pathlockd/internal/faketime"
	"github.com/pathlockd/pathlockd/wire"
)

// fake is a server that does what a test says: each connection is handed to the
// test after its hello was read. Its connections are pipes, so that it works within
// a synctest bubble, where time passes only when everybody waits.
type fake struct {
	t     testing.TB
	addr  string
	conns chan *peer
	taken taken
	// dial is for WithDialer.
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

func newFake(t testing.TB) *fake {
	f := &fake{t: t, addr: "fake:1", conns: make(chan *peer, 64)}
	f.dial = func(_ context.Context, _, addr string) (net.Conn, error) {
		client, server := net.Pipe()
		go f.greet(server, addr)
		return client, nil
	}
	return f
}

// newSocketFake is a fake server with real connections.
func newSocketFake(t testing.TB) *fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{t: t, addr: l.Addr().String(), conns: make(chan *peer, 64), dial: new(net.Dialer).DialContext}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.greet(c, f.addr)
		}
	}()
	return f
}

// greet reads a connection's hello.
func (f *fake) greet(c net.Conn, addr string) {
	p := &peer{Conn: c, t: f.t, addr: addr, topology: new(wire.Topology), taken: &f.taken}
	a, err := p.read()
	for err == nil && a.req.Op == wire.OpPing { // whether anybody is there
		p.refuse(a, wire.FailedPrecondition)
		a, err = p.read()
	}
	if err != nil || a.req.Op != wire.OpHello {
		c.Close()
		return
	}
	f.t.Cleanup(func() { c.Close() })
	p.id, p.hello = a.id, a.req.Hello
	select {
	case f.conns <- p:
	case <-f.t.Context().Done(): // nobody takes it, and there are very many
	}
}

// accept waits for the next connection, whose hello is not answered yet.
func (f *fake) accept() *peer {
	f.t.Helper()
	select {
	case p := <-f.conns:
		return p
	case <-time.After(patience):
		f.t.Fatal("no connection came")
		return nil
	}
}

// open accepts a connection and welcomes it.
func (f *fake) open() *peer {
	f.t.Helper()
	return f.openOf("")
}

// openOf is open, as a server of a cluster.
func (f *fake) openOf(cluster string) *peer {
	f.t.Helper()
	p := f.accept()
	p.mark = cluster
	p.welcome(testLimits)
	return p
}

// serveNext opens all connections that come from now on, until the test ends, and answers
// every request on them with what g says, nil for no answer.
func (f *fake) serveNext(g func(a *asked) *wire.Result) {
	over := f.t.Context().Done()
	go func() {
		for {
			select {
			case p := <-f.conns:
				p.welcome(testLimits)
				go p.serve(g)
			case <-over:
				return
			}
		}
	}()
}

// seeing is open, for a test that answers the client's questions for the topology.
func (f *fake) seeing() *peer {
	f.t.Helper()
	p := f.accept()
	p.topology = nil
	p.welcome(testLimits)
	return p
}

// longGrace is that of the tests that are not about it: the fake server says nothing by
// itself, and answers no ping that its test does not read.
const longGrace = 24 * time.Hour

// client dials the fake server, and answers with the server's end.
func (f *fake) client(opts ...Option) (*Client, *peer) {
	f.t.Helper()
	return f.clientOf("", opts...)
}

// clientOf is client, of a cluster.
func (f *fake) clientOf(cluster string, opts ...Option) (*Client, *peer) {
	f.t.Helper()
	first := make(chan *peer, 1)
	go func() { first <- f.openOf(cluster) }()
	return dial(f.t, f.addr, append([]Option{WithDialer(f.dial), WithGrace(longGrace)}, opts...)...), <-first
}

// limited is a client of a server with limits of its own, and its first connection.
func (f *fake) limited(limits wire.Limits) (*Client, *peer) {
	f.t.Helper()
	first := make(chan *peer, 1)
	go func() {
		p := f.accept()
		p.welcome(limits)
		first <- p
	}()
	return dial(f.t, f.addr, WithDialer(f.dial)), <-first
}

// bubble runs a test on a clock of its own, which moves only while everybody waits:
// for the other side of a pipe, a channel or a timer.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	faketime.Test(t, f)
}

// pass lets so much of a bubble's time go by, and what it brings about happen.
func pass(d time.Duration) {
	time.Sleep(d) // moves the bubble's clock; what it brings about is waited for
	synctest.Wait()
}
