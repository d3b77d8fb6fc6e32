package web

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// conns bounds the connections of a listener. Who opens connections and says nothing
// must not keep others out: so a new one is always taken, and when that is one too
// many, the one that has been without a request for the longest is closed, those
// that are not beyond their handshake first.
type conns struct {
	most     int // together
	halfOpen int // not beyond the handshake

	mu struct {
		sync.Mutex
		all   map[net.Conn]*list.Element // nil while a request is under way
		fresh *list.List                 // net.Conn: nothing asked yet, oldest first
		idle  *list.List                 // net.Conn: no request under way, longest first
		ends  bool                       // nothing new is taken
	}
}

func newConns(most, halfOpen int) *conns {
	c := &conns{most: most, halfOpen: halfOpen}
	c.mu.all, c.mu.fresh, c.mu.idle = make(map[net.Conn]*list.Element), list.New(), list.New()
	return c
}

// state is told what every connection is at (http.Server.ConnState).
func (c *conns) state(conn net.Conn, s http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.mu.all[conn]; e != nil { // it is in one of the lists
		c.mu.fresh.Remove(e)
		c.mu.idle.Remove(e)
	}
	switch s {
	case http.StateNew:
		c.mu.all[conn] = c.mu.fresh.PushBack(conn)
		if c.mu.fresh.Len() > c.halfOpen || c.mu.ends {
			c.cut(c.mu.fresh)
		} else if len(c.mu.all) > c.most {
			if !c.cut(c.mu.idle) {
				c.cut(c.mu.fresh) // at the least the one that just came
			}
		}
	case http.StateIdle:
		c.mu.all[conn] = c.mu.idle.PushBack(conn)
	case http.StateActive:
		c.mu.all[conn] = nil
	case http.StateHijacked, http.StateClosed:
		delete(c.mu.all, conn)
	}
}

// cut closes the first of a list, without a word: whatever is written to it may
// block.
func (c *conns) cut(l *list.List) bool {
	e := l.Front()
	if e == nil {
		return false
	}
	conn := e.Value.(net.Conn) //nolint:forcetypeassert // see conns.mu
	l.Remove(e)
	c.mu.all[conn] = nil // its own goroutine will tell that it is closed
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	_ = conn.Close()
	return true
}

// end closes what has not asked anything yet, and what still comes.
func (c *conns) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.ends = true
	for c.cut(c.mu.fresh) {
	}
}
