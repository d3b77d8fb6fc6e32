package mesh

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pathlockd/pathlockd/groups/link"
)

// route is the way to one peer: the connection that this node dialed, or the attempts to
// have one. It exists as long as its goroutine does, which is until nobody asked for a
// while. The mesh's lock guards it.
type route struct {
	host   string
	addr   string // where the peer was said to be last
	wanted bool   // somebody asked and got nothing since the last attempt began
	conn   *Conn  // that was dialed
	open   bool   // conn is between Opened and Closed

	began   time.Time          // of the attempt
	abandon context.CancelFunc // ends the attempt, nil when there is none
	hurried bool               // the attempt will be abandoned
	asked   chan struct{}      // a sign that wanted is set
	moved   chan struct{}      // a sign that addr is another one
}

// Conn answers the live connection that this node dialed to the node with that raft host
// id, or nil if there is none yet. A dial to addr, or to what a later call says, is then
// under way. Failing ones are repeated for as long as somebody asks. Who does not know
// the address says "": then only what others said of it is tried.
func (m *Mesh) Conn(host, addr string) *Conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.mu.routes[host]
	switch {
	case r == nil:
		if r = m.route(host, addr); r == nil {
			return nil
		}
	case r.open && !r.conn.ended.Load():
		return r.conn
	}
	r.wanted = true
	signal(r.asked)
	if addr != "" && r.addr != addr {
		r.addr = addr
		r.move()
	}
	return nil
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// route makes a route. The lock is held.
func (m *Mesh) route(host, addr string) *route {
	if m.door == nil || m.mu.closed || addr == "" {
		return nil
	}
	if len(m.mu.routes) >= maxPeers {
		m.c.Log.Debug("no connection to a node: there are too many", "host", host, "limit", maxPeers)
		return nil
	}
	r := &route{host: host, addr: addr, asked: make(chan struct{}, 1), moved: make(chan struct{}, 1)}
	m.mu.routes[host] = r
	m.wg.Go(func() { m.travel(r) })
	return r
}

// move has the address looked at anew: soon by a route that waits, and by one that is
// dialing maxWait after that began, so that two who know two addresses do not keep each
// other from both. The lock is held.
func (r *route) move() {
	if r.abandon != nil && !r.hurried {
		time.AfterFunc(maxWait-time.Since(r.began), r.abandon)
		r.hurried = true
	}
	signal(r.moved)
}

// travel dials a peer and reads the connection, again and again while somebody asks.
func (m *Mesh) travel(r *route) {
	wait := minWait
	var told time.Time // when a failure was logged last
	for m.await(r) {
		start := time.Now()
		if err := m.attempt(r); news(err) && time.Since(told) >= m.c.timing.logEvery {
			m.c.Log.Warn("no connection to another node", "port", "link_addr", "host", r.host, "err", err)
			told = time.Now()
		}
		if time.Since(start) >= maxWait {
			wait = minWait
		}
		if m.pause(r, wait) {
			wait = minWait
		} else {
			wait = min(2*wait, maxWait)
		}
	}
}

// news says whether an error is one that groups/link has not logged.
func news(err error) bool {
	var r *link.Refusal
	return err != nil && !errors.As(err, &r) && !errors.Is(err, link.ErrToken)
}

// await waits until somebody asks for the peer. False says that nobody did, and that the
// route is gone.
func (m *Mesh) await(r *route) bool {
	late := time.NewTimer(m.c.timing.forget)
	defer late.Stop()
	for over := false; ; {
		m.mu.Lock()
		if r.wanted && !m.mu.closed {
			m.mu.Unlock()
			return true
		}
		if over || m.mu.closed {
			delete(m.mu.routes, r.host)
			m.mu.Unlock()
			return false
		}
		m.mu.Unlock()
		select {
		case <-r.asked:
		case <-late.C:
			over = true
		case <-m.ctx.Done():
		}
	}
}

// pause waits before the next attempt, minWait at least, and not longer when the address
// became another one: it says whether it did.
func (m *Mesh) pause(r *route, wait time.Duration) (moved bool) {
	late := time.NewTimer(minWait)
	defer late.Stop()
	select {
	case <-late.C:
	case <-m.ctx.Done():
		return false
	}
	late.Reset(wait - minWait)
	select {
	case <-late.C:
	case <-m.ctx.Done():
	case <-r.moved:
		return true
	}
	return false
}

// attempt dials once and is the life of the connection, if there is one. It answers what
// went wrong with either, nil if nothing did.
func (m *Mesh) attempt(r *route) error {
	ctx, cancel := context.WithCancel(m.ctx)
	defer cancel()
	m.mu.Lock()
	r.wanted, r.began, r.abandon, r.hurried = false, time.Now(), cancel, false
	addr := r.addr
	select {
	case <-r.moved:
	default:
	}
	m.mu.Unlock()
	l, err := m.dial(ctx, addr)
	if err == nil {
		defer l.Close()
	}
	m.mu.Lock()
	r.abandon = nil
	abandoned := ctx.Err() != nil
	var c *Conn
	if err == nil && !abandoned {
		c = m.newConn(l, true)
		r.conn = c
	}
	m.mu.Unlock()
	switch {
	case abandoned:
		return nil
	case err != nil:
		return err
	}
	return m.ride(r, c, addr)
}

// dial connects, if the laboratory lets it.
func (m *Mesh) dial(ctx context.Context, addr string) (*link.Conn, error) {
	l, err := m.door.Dial(ctx, "", addr)
	if err != nil || m.c.Faults == nil {
		return l, err
	}
	if fate := m.c.Faults.Outgoing(link.Passage{From: m.c.Node, To: l.Peer().Node, Kind: link.Connect}); fate.Drop ||
		fate.Cut {
		_ = l.Close()
		return nil, errCut
	}
	return l, nil
}

// ride is the life of a dialed connection.
func (m *Mesh) ride(r *route, c *Conn, addr string) error {
	if p := c.Peer(); p.Host != r.host {
		err := fmt.Errorf("node %s looks for the node with raft host id %s at %s, where node %s is, with %s: one of "+
			"them has another's address, or another data_dir than it had", m.c.Node, r.host, addr, p.Node, p.Host)
		c.Close(err)
		c.write()
		return err
	}
	if !m.enlist(c) {
		return nil
	}
	defer m.wg.Done()
	m.c.Opened(c)
	m.mu.Lock()
	r.open, r.wanted = true, false
	m.mu.Unlock()
	c.run()
	m.mu.Lock()
	r.open = false
	m.mu.Unlock()
	return m.over(c)
}
