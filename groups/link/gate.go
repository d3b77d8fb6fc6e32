package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/groups/gossip"
)

// Limits on the connections that came in at one gate.
const (
	maxGreeting     = 256  // that have not said hello
	maxGreetingHost = 64   // of them from one host
	maxGuests       = 4096 // that have
	maxGuestConns   = 128  // of them of one node: dragonboat makes up to 64 for snapshots
)

// acceptPause is how long a listener that fails is left alone.
const acceptPause = 100 * time.Millisecond

// gate is one port of a node and what passes it in both directions: it listens, dials,
// greets and counts. Every goroutine is in wg, and every connection in mu.open until it
// is closed, so Close ends them all.
type gate struct {
	c      Config
	tls    *tls.Config     // nil for a node alone
	secret []byte          // proven in the hello, nil if the handshake has proven it
	key    string          // the setting that names the port, for people
	kinds  []Kind          // what is asked for at this port
	limit  *gossip.Limiter // of warnings, by kind and host
	ctx    context.Context // ends with the gate
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu struct {
		sync.Mutex
		closed   bool
		listener net.Listener
		open     map[net.Conn]struct{} // raw, both directions
		greeting map[string]int        // that came in and have not said hello, by host
		greeters int                   // all of them
		guests   map[string]*guest     // that came in and did, by node id
		visits   int                   // connections of all guests
	}
}

// guest is a node that has connections to this one.
type guest struct {
	host  string // raft host id
	conns int
}

// visit is one connection after the hello.
type visit struct {
	raw    net.Conn // what is closed
	secure *tls.Conn
	peer   Peer
	kind   Kind
}

func (l *Link) gate(key string, kinds ...Kind) *gate {
	g := &gate{c: l.c, tls: l.tls, secret: l.secret, key: key, kinds: kinds,
		limit: gossip.NewLimiter(l.c.timing.logEvery)}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.mu.open = make(map[net.Conn]struct{})
	g.mu.greeting = make(map[string]int)
	g.mu.guests = make(map[string]*guest)
	return g
}

// listen takes connections, unless the node is alone. serve has each in a goroutine of
// its own; the connection is closed when it returns, and its error logged.
func (g *gate) listen(addr string, serve func(*visit) error) error {
	if g.tls == nil {
		return nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen for other nodes on %s, which %s says: %w", addr, g.key, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.closed {
		_ = l.Close()
		return errClosed
	}
	g.mu.listener = l
	g.wg.Go(func() { g.accept(l, serve) })
	return nil
}

// addr is where the gate listens, "" if it does not.
func (g *gate) addr() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.listener == nil {
		return ""
	}
	return g.mu.listener.Addr().String()
}

// Close closes the listener and every connection and waits for their goroutines. It may
// be called more than once.
func (g *gate) Close() error {
	g.cancel()
	g.mu.Lock()
	g.mu.closed = true
	if g.mu.listener != nil {
		_ = g.mu.listener.Close()
	}
	for c := range g.mu.open {
		_ = c.Close()
	}
	g.mu.Unlock()
	g.wg.Wait()
	return nil
}

// keep notes a connection, to be ended with shut, and starts its goroutine if there is
// one; false if the gate is closed.
func (g *gate) keep(c net.Conn, serve func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.closed {
		return false
	}
	g.mu.open[c] = struct{}{}
	if serve != nil {
		g.wg.Go(serve)
	}
	return true
}

// spawn starts a goroutine that ends with the gate; false if it is closed.
func (g *gate) spawn(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.mu.closed {
		g.wg.Go(f)
	}
	return !g.mu.closed
}

// shut closes a connection. It is the TCP connection that is closed: saying goodbye in
// TLS would wait for a peer that does not read, and frames say where they end.
func (g *gate) shut(c net.Conn) {
	g.mu.Lock()
	delete(g.mu.open, c)
	g.mu.Unlock()
	_ = c.Close()
}

// warn logs once in a while for each kind and host.
func (g *gate) warn(kind, host, text string, err error) {
	if g.ctx.Err() != nil || !g.limit.Allow(kind+" "+host) {
		return
	}
	args := make([]any, 0, 6)
	args = append(args, "port", g.key)
	if host != "" {
		args = append(args, "peer", host)
	}
	if err != nil {
		args = append(args, "err", err)
	}
	g.c.Log.Warn(text, args...)
}

// enter counts a connection that has not said hello, if there is room.
func (g *gate) enter(host string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.greeters >= maxGreeting || g.mu.greeting[host] >= maxGreetingHost {
		return false
	}
	g.mu.greeters++
	g.mu.greeting[host]++
	return true
}

func (g *gate) leave(host string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.greeters--
	if g.mu.greeting[host]--; g.mu.greeting[host] == 0 {
		delete(g.mu.greeting, host)
	}
}

// arrive counts a guest's connection, or says why not.
func (g *gate) arrive(h *hello) (verdict, string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	known := g.mu.guests[h.node]
	switch {
	case known != nil && known.host != h.host:
		return clash, fmt.Sprintf("node_id %s is used by two nodes, with raft host ids %s and %s: give one of them "+
			"another node_id", h.node, known.host, h.host)
	case g.mu.visits >= maxGuests:
		return tooMany, fmt.Sprintf("node %s has %d connections at its %s, which is the most", g.c.Node,
			maxGuests, g.key)
	case known != nil && known.conns >= maxGuestConns:
		return tooMany, fmt.Sprintf("node %s has %d connections at the %s of node %s, which is the most", h.node,
			maxGuestConns, g.key, g.c.Node)
	}
	if known == nil {
		known = &guest{host: h.host}
		g.mu.guests[h.node] = known
	}
	known.conns++
	g.mu.visits++
	return accepted, ""
}

func (g *gate) depart(p Peer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.visits--
	if known := g.mu.guests[p.Node]; known != nil {
		if known.conns--; known.conns == 0 {
			delete(g.mu.guests, p.Node)
		}
	}
}

// tune lets the kernel find dead peers too, and send frames as they are written.
func tune(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetNoDelay(true)
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second,
			Interval: 2 * time.Second, Count: 3})
	}
}

// errAlone is the error of a dial on a node that has neither token nor certificates.
var errAlone = errors.New("this node has no internal_auth_token and so no peers")

// errClosed is the error of what a closed link was asked for.
var errClosed = errors.New("the link between nodes is closed")
