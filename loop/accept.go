package loop

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"github.com/pathlockd/pathlockd/internal/tcp"
	"github.com/pathlockd/pathlockd/wire"
)

// Listen serves connections on an address of network "tcp" or "unix", and answers
// the address it listens on.
func (s *Server) Listen(network, addr string) (net.Addr, error) {
	if network == "unix" {
		if err := removeStale(addr); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen(network, addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s %s: %w", network, addr, err)
	}
	if err := s.Serve(l); err != nil {
		return nil, err
	}
	return l.Addr(), nil
}

// Serve serves connections of a listener, which is the server's from then on, also if there is an error.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.Join(net.ErrClosed, l.Close())
	}
	s.listeners = append(s.listeners, l)
	s.running.Add(1)
	go s.accept(l)
	return nil
}

// removeStale removes a Unix socket that nobody listens on.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSocket == 0 {
		return fmt.Errorf("%s exists and is no socket", path)
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		_ = c.Close()
		return fmt.Errorf("%s is in use by another process", path)
	}
	return os.Remove(path)
}

const (
	// acceptPause is how long accepting rests when there are no file descriptors left.
	acceptPause = 50 * time.Millisecond
	// mostWait is how many connections may wait to be taken: the kernel keeps no longer backlog.
	mostWait = 1<<16 + 1
)

// accept moves connections onto the event loops.
func (s *Server) accept(l net.Listener) {
	defer s.running.Done()
	var waits time.Duration // since when, by the uptime, connections may wait to be taken; 0: none does
	behind := 0             // how many of them there may be yet
	for {
		// gnet takes a second file descriptor for a connection, before the first is free
		// again, and drops the connection if there is none. So one is held in reserve.
		spare, err := os.Open(os.DevNull)
		var c net.Conn
		if err == nil {
			if behind--; waits != 0 && (behind < 0 || !tcp.Waiting(l)) { // how long it takes to take one tells nothing
				waits = 0
			}
			c, err = l.Accept()
			_ = spare.Close()
		}
		now := s.pulse.uptime()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			if waits == 0 { // else it is the same again, twenty times a second
				s.opt.Log.Warn("cannot accept connections, they wait", "error", err)
				waits = now
			}
			behind = mostWait
			select {
			case <-s.stop:
				return
			case <-time.After(acceptPause):
			}
			continue
		}
		switch {
		case waits != 0 && now-waits > s.patience: // what it sent may be as old as after a standstill
			s.turnAway(c, errWaitedLong)
			continue
		case s.count.Load() >= int64(s.opt.Connections):
			s.turnAway(c, wire.Errorf(wire.ResourceExhausted,
				"the server has %d connections, no more are taken", s.opt.Connections))
			continue
		}
		s.count.Add(1)
		if err := s.enroll(c); err != nil {
			s.count.Add(-1)
			s.opt.Log.Warn("cannot serve a connection", "error", err)
		}
	}
}

// errNotOpened says that gnet took a connection and could not watch it.
var errNotOpened = errors.New("the event loop did not take it")

// enroll moves a connection onto an event loop.
func (s *Server) enroll(c net.Conn) error {
	plainZones(c)
	tcp.ExpireUnacked(c, tcp.GoneWithin)
	conn := &session{srv: s, opened: time.Now()}
	if _, err := s.client.EnrollContext(c, conn); err != nil {
		return err
	}
	if conn.r == nil { // OnOpen was not called, so OnClose will not be
		return errNotOpened
	}
	return nil
}

// plainZones takes the zones off a connection's addresses. gnet takes them for memory of
// its own, to be written to later; they are strings of the net package.
func plainZones(c net.Conn) {
	for _, a := range []net.Addr{c.LocalAddr(), c.RemoteAddr()} {
		if a, ok := a.(*net.TCPAddr); ok {
			a.Zone = ""
		}
	}
}

// errWaitedLong tells a client that its connection may have waited to be taken, and what it sent meanwhile with it.
var errWaitedLong = wire.Errorf(wire.DeadlineExceeded,
	"connections waited for over %v until the node had file descriptors for them; what was sent on them was not taken",
	tcp.GoneWithin)

// turnAway tells a client, if it listens, why it is not served.
func (s *Server) turnAway(c net.Conn, why *wire.Error) {
	defer c.Close()
	if c.SetWriteDeadline(time.Now().Add(acceptPause)) == nil {
		_, _ = c.Write(wire.AppendGoodbye(nil, why))
	}
}

// CloseListeners stops taking connections.
func (s *Server) CloseListeners() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		_ = l.Close() // what it has accepted lives on
	}
	s.listeners = nil
}
