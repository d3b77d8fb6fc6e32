package link

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/internal/tcp"
)

// Door is the port through which nodes send each other requests (link_addr). Who is let
// in, and how that is found out, is the same as for raft; what is said then is the
// caller's business.
type Door struct{ g *gate }

// OpenDoor listens on addr, or nowhere if it is "". serve is called with each connection
// that another node made, in a goroutine of its own; when it returns the connection is
// closed, and what it answers is logged unless it is how connections end. It must return
// when reading or writing fails: Close waits for it. A node alone has a door that is
// shut: nothing listens, and Dial answers errAlone.
func (l *Link) OpenDoor(addr string, serve func(*Conn) error) (*Door, error) {
	d := &Door{g: l.gate("link_addr", Requests)}
	if addr == "" {
		return d, nil
	}
	err := d.g.listen(addr, func(v *visit) error {
		c := d.conn(v)
		defer c.Close()
		return serve(c)
	})
	if err != nil {
		d.g.cancel()
		return nil, fmt.Errorf("link: %w", err)
	}
	return d, nil
}

// Addr is where the door listens, "" if it does not.
func (d *Door) Addr() string { return d.g.addr() }

// Dial connects to the door of a node. Another node that answers at its address, as
// happens when addresses change, is refused; with node "" any will do. The caller closes
// the connection.
func (d *Door) Dial(ctx context.Context, node, addr string) (*Conn, error) {
	v, err := d.g.dial(ctx, addr, node, Requests)
	if err != nil {
		return nil, fmt.Errorf("link: %w", err)
	}
	return d.conn(v), nil
}

// Close closes the listener and all connections, those that were dialed too, and waits
// until serve has returned everywhere.
func (d *Door) Close() error { return d.g.Close() }

func (d *Door) conn(v *visit) *Conn {
	tcp.ExpireUnacked(v.raw, unacked)
	return &Conn{Conn: v.secure, raw: v.raw, peer: v.peer, g: d.g, closed: make(chan struct{})}
}

// Conn is a connection between two nodes that know each other, a net.Conn. Unlike
// raft's it has no sign of life of its own: deadlines are for its user to set. What was
// written and is not acknowledged within unacked ends it, where the kernel can do that.
type Conn struct {
	net.Conn // TLS
	raw      net.Conn
	peer     Peer
	g        *gate
	once     sync.Once
	closed   chan struct{}

	// order keeps writes in order, and tells whether something of them was lost. It is used
	// in the fault laboratory only.
	order struct {
		sync.Mutex
		lost bool
	}
}

// Peer is who is at the other end.
func (c *Conn) Peer() Peer { return c.peer }

// Close closes the connection at once and says no goodbye, which a peer that hangs could
// hold up. It may be called more than once and from anywhere.
func (c *Conn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.g.shut(c.raw)
	})
	return nil
}

// Write writes, through the laboratory's network faults if there are any.
func (c *Conn) Write(b []byte) (int, error) {
	if c.g.c.Faults == nil {
		return c.Conn.Write(b)
	}
	return c.writeThrough(b)
}

// writeThrough writes what the laboratory lets pass. A stream with a hole is of no use:
// after something was dropped nothing passes, as in a network that swallows packets, and
// once the fault is over the connection is cut.
func (c *Conn) writeThrough(b []byte) (int, error) {
	c.order.Lock()
	defer c.order.Unlock()
	fate := c.g.c.Faults.Outgoing(Passage{From: c.g.c.Node, To: c.peer.Node, Kind: Requests, Bytes: len(b)})
	switch {
	case fate.Drop:
		c.order.lost = true
		return len(b), nil
	case fate.Cut || c.order.lost:
		_ = c.Close()
		return 0, errCut
	case fate.Delay > 0:
		late := time.NewTimer(fate.Delay)
		defer late.Stop()
		select {
		case <-late.C:
		case <-c.closed:
			return 0, net.ErrClosed
		case <-c.g.ctx.Done():
			return 0, net.ErrClosed
		}
	}
	return c.Conn.Write(b)
}
