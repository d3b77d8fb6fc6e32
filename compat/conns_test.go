package compat

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestConnsMakeRoom: who makes room for a new connection, and what the log is told.
func TestConnsMakeRoom(t *testing.T) {
	var logged bytes.Buffer
	c := NewConns(4, 2, slog.New(slog.NewTextHandler(&logged, nil)))
	far := make(map[net.Conn]net.Conn)
	open := func() net.Conn {
		near, other := net.Pipe()
		far[near] = other
		c.State(near, http.StateNew)
		return near
	}
	closed := func(conns ...net.Conn) {
		t.Helper()
		for _, conn := range conns {
			_ = far[conn].SetReadDeadline(time.Unix(1, 0)) // it is closed already, or never
			if _, err := far[conn].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Error("a connection is open that should have made room")
			}
			if c.State(conn, http.StateActive) || c.State(conn, http.StateIdle) {
				t.Error("a connection that was closed is served on")
			}
		}
		for conn := range far {
			if _, is := c.mu.all[conn]; !is {
				delete(far, conn)
			}
		}
		for _, conn := range conns {
			if _, is := far[conn]; is {
				t.Error("a connection that was closed is counted")
			}
		}
	}
	left := func(n int) {
		t.Helper()
		if len(c.mu.all) != n {
			t.Errorf("there are %d connections, want %d", len(c.mu.all), n)
		}
	}

	// Of those that say nothing, the first makes room.
	silent := open()
	a := open()
	b := open()
	closed(silent)
	// Of those that are idle, the one that has been so for the longest does.
	c.State(a, http.StateActive)
	c.State(b, http.StateIdle)
	c.State(a, http.StateIdle)
	d := open()
	c.State(d, http.StateActive)
	e := open()
	left(4)
	f := open()
	closed(b)
	left(4)
	// One that has nothing asked is only closed when nobody is idle.
	c.State(a, http.StateActive)
	c.State(e, http.StateActive)
	g := open()
	closed(f)
	// When all are busy, the new one is.
	c.State(g, http.StateActive)
	closed(open())
	left(4)
	// One that is gone leaves its place to another.
	if c.State(a, http.StateClosed) {
		t.Error("a connection that is closed is open")
	}
	h := open()
	c.State(h, http.StateIdle)
	left(4)
	if n := strings.Count(logged.String(), "too many connections"); n != 1 ||
		!strings.Contains(logged.String(), "limit=4") {
		t.Errorf("the log was told %d times within a minute:\n%s", n, &logged)
	}
	c.mu.told = c.mu.told.Add(-tellEvery)
	i, last := open(), open()
	closed(h, i)
	if n := strings.Count(logged.String(), "too many connections"); n != 2 ||
		!strings.Contains(logged.String(), "closed=4 ") {
		t.Errorf("a minute later the log was told %d times, want 2, and of 4 that were closed meanwhile:\n%s",
			n, &logged)
	}
	// What is asked is answered when the server stops; what comes then is not taken.
	c.End()
	closed(last, open())
	left(3)
}
