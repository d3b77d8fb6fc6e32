package compat

import (
	"container/list"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// maxConns is how many gRPC connections there may be at once, unless the options
	// say otherwise. One that is idle takes about 50 KiB.
	maxConns = 16_384
	// MaxHalfOpen is how many connections of a listener may be such that have not said
	// yet what they speak.
	MaxHalfOpen = 1024
	// tellEvery is how often the log is told that connections are closed to make room.
	tellEvery = time.Minute
)

// Conns bounds the connections of a listener. Who opens connections and says nothing
// must not keep others out: so a new one is always taken, and when that is one too
// many, the one that has been without a request for the longest is closed, those
// that are not beyond their handshake first. It may be used by many goroutines.
type Conns struct {
	most     int // together
	halfOpen int // not beyond the handshake
	log      *slog.Logger

	mu struct {
		sync.Mutex
		all   map[net.Conn]*list.Element // nil while a request is under way
		fresh *list.List                 // net.Conn: nothing asked yet, oldest first
		idle  *list.List                 // net.Conn: no request under way, longest first
		ends  bool                       // nothing new is taken
		cut   int                        // closed to make room, and not told yet
		told  time.Time
	}
}

// NewConns bounds connections to so many together, and so many that are not beyond
// their handshake. log is told when there are more.
func NewConns(most, halfOpen int, log *slog.Logger) *Conns {
	c := &Conns{most: most, halfOpen: halfOpen, log: log}
	c.mu.all, c.mu.fresh, c.mu.idle = make(map[net.Conn]*list.Element), list.New(), list.New()
	return c
}

// State is told what a connection is at, in the words of http.Server.ConnState: new,
// active while it has requests under way, idle while it has none, and closed. It says
// whether the connection is open as far as Conns knows: nothing that comes over one that
// was closed here is to be carried out.
func (c *Conns) State(conn net.Conn, s http.ConnState) bool {
	c.mu.Lock()
	open := c.state(conn, s)
	full := c.full()
	c.mu.Unlock()
	if full != nil {
		c.log.Warn("too many connections, the longest silent are closed", full...)
	}
	return open
}

func (c *Conns) state(conn net.Conn, s http.ConnState) bool {
	e, known := c.mu.all[conn]
	if !known && s != http.StateNew {
		return false
	}
	if e != nil { // it is in one of the lists
		c.mu.fresh.Remove(e)
		c.mu.idle.Remove(e)
	}
	switch s {
	case http.StateNew:
		c.mu.all[conn] = c.mu.fresh.PushBack(conn)
		c.makeRoom()
	case http.StateIdle:
		c.mu.all[conn] = c.mu.idle.PushBack(conn)
	case http.StateActive:
		c.mu.all[conn] = nil
	case http.StateHijacked, http.StateClosed:
		delete(c.mu.all, conn)
	}
	_, open := c.mu.all[conn]
	return open
}

// makeRoom closes a connection when one too many has come.
func (c *Conns) makeRoom() {
	switch {
	case c.mu.ends:
		c.cut(c.mu.fresh)
	case c.mu.fresh.Len() > c.halfOpen:
		c.cut(c.mu.fresh)
		c.mu.cut++
	case len(c.mu.all) > c.most:
		if !c.cut(c.mu.idle) {
			c.cut(c.mu.fresh) // at the least the one that just came
		}
		c.mu.cut++
	}
}

// full is what the log is to be told now, nil when there is nothing.
func (c *Conns) full() []any {
	if c.mu.cut == 0 || time.Since(c.mu.told) < tellEvery {
		return nil
	}
	args := []any{"closed", c.mu.cut, "connections", len(c.mu.all), "limit", c.most, "before_handshake",
		c.mu.fresh.Len(), "before_handshake_limit", c.halfOpen}
	c.mu.cut, c.mu.told = 0, time.Now()
	return args
}

// cut closes the first of a list, without a word: whatever is written to it may
// block.
func (c *Conns) cut(l *list.List) bool {
	e := l.Front()
	if e == nil {
		return false
	}
	conn := e.Value.(net.Conn) //nolint:forcetypeassert // see Conns.mu
	l.Remove(e)
	delete(c.mu.all, conn)
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok { // *tls.Conn
		conn = t.NetConn()
	}
	_ = conn.Close()
	return true
}

// End closes what has not asked anything yet, and what still comes: there is nothing
// to answer.
func (c *Conns) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.ends = true
	for c.cut(c.mu.fresh) {
	}
}

// counted is a listener whose connections are bounded.
type counted struct {
	net.Listener
	conns *Conns
}

// Accept implements net.Listener.
func (l *counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.conns.State(c, http.StateNew)
	}
	return c, err
}
