package compat

import (
	"net"
	"sync"
)

// fresh is the connections that have not said yet what they speak. They have no call
// that could be answered, so a server that stops does not wait for them.
type fresh struct {
	mu struct {
		sync.Mutex
		conns  map[net.Conn]struct{}
		closed bool
	}
}

// add notes a connection, or closes it when no more are taken.
func (f *fresh) add(c net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.closed {
		_ = c.Close()
		return
	}
	if f.mu.conns == nil {
		f.mu.conns = make(map[net.Conn]struct{})
	}
	f.mu.conns[c] = struct{}{}
}

// remove is for a connection that spoke, or is gone.
func (f *fresh) remove(c net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.mu.conns, c)
}

// close closes them, and all that still come.
func (f *fresh) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.closed = true
	for c := range f.mu.conns {
		_ = c.Close()
	}
	f.mu.conns = nil
}

// freshListener notes what it accepts.
type freshListener struct {
	net.Listener
	fresh *fresh
}

// Accept implements net.Listener.
func (l *freshListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.fresh.add(c)
	}
	return c, err
}
