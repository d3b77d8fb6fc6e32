package mesh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"

	"github.com/pathlockd/pathlockd/groups/link"
)

// Mesh is a node's connections to the others. Every goroutine of it is in wg or the
// door's, and every connection in mu.live until Closed was called, so Close ends them
// all.
type Mesh struct {
	c      Config
	door   *link.Door // nil for a node alone
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu struct {
		sync.Mutex
		closed bool
		live   map[*Conn]struct{} // both directions
		routes map[string]*route  // by raft host id
	}
}

// New answers a mesh that listens, or what is wrong with its configuration.
func New(c Config) (*Mesh, error) {
	if c.Frame == nil {
		return nil, errors.New("mesh: Frame must be set")
	}
	m := &Mesh{c: c.defaults()}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.mu.live = make(map[*Conn]struct{})
	m.mu.routes = make(map[string]*route)
	// Faults decide here, about frames: the link would ask about what they share.
	l, err := link.New(link.Config{
		Cluster: c.Cluster, Node: c.Node, Host: c.Host, FormatMin: c.FormatMin, FormatMax: c.FormatMax, InUse: c.InUse,
		Raise: c.Raise,
		Token: c.Token, TLS: c.TLS, Admit: c.Admit, Log: m.c.Log,
	})
	if err != nil {
		m.cancel()
		return nil, fmt.Errorf("mesh: %w", err)
	}
	if c.Token == "" && c.TLS == nil {
		return m, nil
	}
	m.mu.Lock() // for those that come before this returns
	defer m.mu.Unlock()
	if m.door, err = l.OpenDoor(c.Listen, m.serve); err != nil {
		m.cancel()
		return nil, fmt.Errorf("mesh: %w", err)
	}
	return m, nil
}

// Addr is where the mesh listens, "" if it does not.
func (m *Mesh) Addr() string {
	if m.door == nil {
		return ""
	}
	return m.door.Addr()
}

// Close ends the listener, every dial and every connection, and waits for their
// goroutines. The peers are told. It may be called more than once, but not from Config's
// callbacks.
func (m *Mesh) Close() error {
	m.cancel()
	m.mu.Lock()
	m.mu.closed = true
	for c := range m.mu.live {
		c.Close(errClosed)
	}
	m.mu.Unlock()
	m.wg.Wait()
	if m.door == nil {
		return nil
	}
	return m.door.Close()
}

// serve is the life of a connection that came in.
func (m *Mesh) serve(l *link.Conn) error {
	c := m.newConn(l, false)
	if !m.enlist(c) {
		return nil
	}
	defer m.wg.Done()
	m.c.Opened(c)
	c.run()
	return m.over(c)
}

// enlist notes a connection for Close to end and wait for; false when the mesh is closed.
func (m *Mesh) enlist(c *Conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.closed {
		return false
	}
	m.mu.live[c] = struct{}{}
	m.wg.Add(1)
	return true
}

// over tells that a connection is, and answers its error unless that is how connections
// end.
func (m *Mesh) over(c *Conn) error {
	err := c.reason()
	m.c.Closed(c, err)
	m.mu.Lock()
	delete(m.mu.live, c)
	m.mu.Unlock()
	for _, usual := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE,
		errClosed, errCut} {
		if errors.Is(err, usual) {
			return nil
		}
	}
	return err
}
