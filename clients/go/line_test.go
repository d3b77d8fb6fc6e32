package pathlockd

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// line is a dialer whose connections a test can cut, and keep from being made.
type line struct {
	dialer func(ctx context.Context, network, addr string) (net.Conn, error) // nil: that of net

	mu    sync.Mutex
	down  error // why no connection can be made, nil: it can
	cur   net.Conn
	dials int
}

// errNobody is what a dialer says when nobody listens.
var errNobody = &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}

func (l *line) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dials++
	if l.down != nil {
		return nil, l.down
	}
	dialer := l.dialer
	if dialer == nil {
		dialer = new(net.Dialer).DialContext
	}
	c, err := dialer(ctx, network, addr)
	l.cur = c
	return c, err
}

// cut breaks the connection at the client's end. Unless why is nil, no other can be
// made until mend.
func (l *line) cut(why error) {
	l.fail(why)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cur != nil {
		l.cur.Close()
	}
}

// fail lets no connection be made any more.
func (l *line) fail(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = why
}

func (l *line) mend() { l.fail(nil) }

func (l *line) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dials
}
