package tcp

import (
	"context"
	"net"
	"time"
)

// GoneWithin is how long a client may be there for the server without a sign of it: when it says nothing, and
// when it acknowledges nothing of what was sent to it. One that vanished without a word, its host or the network
// with it, is noticed by then, and what is tied to its connection, or its call, goes on to others.
const GoneWithin = 30 * time.Second

// A client that says nothing is asked askAfter, and then each askEvery, asks times: together GoneWithin. The
// default of the net package is two and a half minutes.
const (
	askAfter = GoneWithin / 2
	asks     = 3
	askEvery = (GoneWithin - askAfter) / asks
)

// Listen listens at an address, host:port, for clients that are noticed to be gone within GoneWithin.
func Listen(addr string) (net.Listener, error) {
	conf := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: askAfter, Interval: askEvery,
		Count: asks}}
	l, err := conf.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &listener{l}, nil
}

type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		ExpireUnacked(c, GoneWithin)
	}
	return c, err
}
