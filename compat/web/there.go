package web

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"github.com/pathlockd/pathlockd/internal/tcp"
)

// lookEvery is how often it is looked whether a client of HTTP/1.1 is there whose request stays open.
const lookEvery = time.Second

type connKey struct{}

// withConn is the context of the requests of a connection over TCP.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// whileThere is a request's context, which ends when its client closes the connection. net/http reads
// on while a request of HTTP/1.1 is carried out, and so notices that, but only until something comes: a
// line break behind the body, or the next request.
func whileThere(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(r.Context())
	c, ok := ctx.Value(connKey{}).(net.Conn)
	if !ok || r.ProtoMajor != 1 {
		return ctx, stop
	}
	of := there{ctx, c, stop}
	go func() {
		look := time.NewTicker(lookEvery)
		defer look.Stop()
		for {
			select {
			case <-of.Done():
				return
			case <-look.C:
				_ = of.Err()
			}
		}
	}()
	return of, stop
}

// there is the context of a request whose connection is looked at.
type there struct {
	context.Context
	conn net.Conn
	stop context.CancelFunc
}

// Err implements context.Context. It looks by itself: what comes between two looks is not granted to a client that
// closed its connection before.
func (t there) Err() error {
	if t.Context.Err() == nil && tcp.Ended(t.conn) {
		t.stop()
	}
	return t.Context.Err()
}
