// Package ceiling measures what no lock server on the machine can be faster than:
// the network alone, and the disk alone.
package ceiling

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"

	"github.com/panjf2000/gnet/v2"
)

// Echo is a server that sends back what it is sent, on as many event loops as there
// are processors: the network, and a reactor that does nothing.
type Echo struct {
	listener net.Listener
	client   *gnet.Client
	done     sync.WaitGroup
}

// NewEcho serves on an address, which Addr tells.
func NewEcho(addr string) (*Echo, error) {
	client, err := gnet.NewClient(new(echoes), gnet.WithNumEventLoop(runtime.GOMAXPROCS(0)),
		gnet.WithTCPNoDelay(gnet.TCPNoDelay), gnet.WithLogger(silent{}))
	if err == nil {
		err = client.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the event loops: %w", err)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, errors.Join(err, client.Stop())
	}
	e := &Echo{listener: l, client: client}
	e.done.Go(e.accept)
	return e, nil
}

// Addr is where it listens.
func (e *Echo) Addr() string { return e.listener.Addr().String() }

func (e *Echo) accept() {
	for {
		c, err := e.listener.Accept()
		if err != nil {
			return // closed
		}
		if _, err := e.client.Enroll(c); err != nil {
			return
		}
	}
}

// Close ends it.
func (e *Echo) Close() error {
	err := e.listener.Close()
	e.done.Wait()
	return errors.Join(err, e.client.Stop())
}

// echoes is what gnet calls.
type echoes struct{ gnet.BuiltinEventEngine }

// OnTraffic implements gnet.EventHandler.
func (*echoes) OnTraffic(c gnet.Conn) gnet.Action {
	buf, err := c.Next(-1)
	if err != nil {
		return gnet.Close
	}
	if _, err := c.Write(buf); err != nil {
		return gnet.Close
	}
	return gnet.None
}

// silent is a logger of gnet's that says nothing: what goes wrong with an echo shows
// at its clients.
type silent struct{}

func (silent) Debugf(string, ...any) {}
func (silent) Infof(string, ...any)  {}
func (silent) Warnf(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(string, ...any) {}
