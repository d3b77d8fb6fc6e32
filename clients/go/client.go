package pathlockd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// Client is a connection to a pathlockd server that mends itself. Its methods may
// be called by any number of goroutines.
type Client struct {
	opt   options
	addrs []address
	meta  []byte // what it says of itself, encoded
	name  string // what owners it makes up begin with
	start time.Time

	session session
	keeper  keeper
	subs    subscriptions
	watch   topologyWatch
	binds   binds
	waiters sync.Pool // *waiter

	heard       atomic.Int64 // when the last bytes of the last connection came (now)
	tries       atomic.Int32 // rounds of connecting since a server last answered
	move        atomic.Bool  // the next connection should go elsewhere
	owners      atomic.Uint64
	connections atomic.Uint64
	frame       atomic.Int64 // bytes of the longest payload the server takes

	longestQueue time.Duration // most that a request may wait
	nextStale    time.Duration // of the keeper: when to look for those that waited long

	ctx     context.Context // ends with Close
	end     context.CancelFunc
	done    chan struct{} // closed when run has ended
	running sync.WaitGroup
	closing sync.Once

	link struct { // for people and errors
		sync.Mutex
		server ServerInfo
		err    error // why there is no connection
	}
}

// Pauses between rounds of connecting: they double, and are drawn from the upper
// half.
const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = 2 * time.Second
)

// Dial connects to a server. addr is host:port, unix:/path, or several of them
// with commas between, which are tried in turn now and whenever the connection is
// lost. ctx is for connecting alone.
//
// From then on the Client connects anew by itself. Requests wait for that within
// their contexts; those that a broken connection left unanswered are sent again,
// and carried out once.
func Dial(ctx context.Context, addr string, opts ...Option) (*Client, error) {
	c := &Client{opt: defaults(), start: time.Now(), done: make(chan struct{}), longestQueue: wire.MaxTTLMillis * time.Millisecond}
	for _, o := range opts {
		o(&c.opt)
	}
	if err := c.opt.check(); err != nil {
		return nil, err
	}
	var err error
	if c.addrs, err = parseAddresses(addr); err != nil {
		return nil, err
	}
	if c.meta, err = c.opt.metadata(nil); err != nil {
		return nil, err
	}
	c.name = ownerPrefix()
	c.ctx, c.end = context.WithCancel(context.Background())
	c.session.c = c
	c.session.begin()
	c.session.mu.sent.grow(1)
	c.keeper.init(c)
	c.subs.c, c.watch.c = c, c
	c.subs.mu.all = make(map[*Subscription]struct{})
	c.subs.mu.known = make(map[uint64]*Subscription)
	c.watch.mu.to = make(map[chan *wire.Topology]struct{})
	var failed []error
	for at := range c.addrs {
		cn, err := c.connect(ctx, at)
		if err == nil {
			c.attach(cn)
			c.spawn(func() { c.run(cn) })
			c.spawn(c.keeper.run)
			return c, nil
		}
		failed = append(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	c.end()
	return nil, errors.Join(failed...)
}

// ownerPrefix begins the owners that the client makes up: it tells the host, the
// process, and the client from any other.
func ownerPrefix() string {
	const most = 64
	host, _ := os.Hostname()
	return fmt.Sprintf("%.*s-%d-%08x-", most, host, os.Getpid(), rand.Uint32())
}

// newOwner makes up an owner that nobody else has.
func (c *Client) newOwner() string {
	var b [128]byte
	return string(strconv.AppendUint(append(b[:0], c.name...), c.owners.Add(1), 10))
}

// spawn runs f on a goroutine that Close waits for; not at all when the client is
// closed.
func (c *Client) spawn(f func()) {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	if c.session.mu.closed != nil {
		return
	}
	c.running.Add(1)
	go func() {
		defer c.running.Done()
		f()
	}()
}

// run reads one connection after the other, beginning with cn, until the client is
// closed.
func (c *Client) run(cn *conn) {
	defer close(c.done)
	for {
		cn.giveUp(cn.read())
		c.detach(cn)
		if cn = c.reconnect(cn.at); cn == nil {
			return
		}
		c.attach(cn)
	}
}

// attach makes cn the connection that everything goes by. What the keeper and the
// subscriptions have to say goes ahead of new requests.
func (c *Client) attach(cn *conn) {
	c.link.Lock()
	c.link.server, c.link.err = cn.server, nil
	c.link.Unlock()
	w := windowsOf(&cn.limits, c.opt.window)
	c.frame.Store(int64(w.frame))
	c.keeper.attached(cn.number, w.subs/2)
	c.binds.resume(c)
	c.subs.resume()
	c.watch.resume()
	if err := c.session.resume(cn, w); err != nil {
		cn.nc.Close()
	}
	c.keeper.nudge()
}

// detach takes note that cn is gone.
func (c *Client) detach(cn *conn) {
	heard := time.Duration(cn.heard.Load())
	c.heard.Store(int64(heard))
	c.session.mu.Lock()
	err := cn.failed
	c.session.mu.Unlock()
	c.link.Lock()
	c.link.err = fmt.Errorf("pathlockd: connection to %s: %w", c.addrs[cn.at], err)
	c.link.Unlock()
	c.session.lost(cn, heard)
	c.subs.detached()
	var bye *goodbye
	if errors.As(err, &bye) {
		c.move.Store(true)
	}
	// A server on its way out ends no lease with its connections.
	c.keeper.detached(bye != nil && bye.err.Code == wire.Unavailable, isCut(err))
}

// reconnect makes the next connection, beginning with the address of the last,
// and answers nil when the client is closed.
func (c *Client) reconnect(last int) *conn {
	at := last
	if c.move.Swap(false) {
		at++
	}
	for {
		if n := c.tries.Add(1) - 1; n > 0 && !c.pause(backoff(int(n)-1, minBackoff, maxBackoff)) {
			return nil
		}
		for i := range c.addrs {
			next := (at + i) % len(c.addrs)
			cn, err := c.connect(c.ctx, next)
			if err == nil {
				return cn
			}
			if c.ctx.Err() != nil {
				return nil
			}
			if next == last && isDead(err) {
				c.keeper.excuse()
			}
			c.link.Lock()
			c.link.err = err
			c.link.Unlock()
		}
	}
}

// elsewhereAfter is how long a server may take no request before the client tries
// another address. One that is about to stop says goodbye, and is left at once.
const elsewhereAfter = time.Second

// errRefusing says why a connection was given up whose server took nothing.
var errRefusing = errors.New("the server takes no requests")

// refused takes note, on the reader's goroutine, that a request was not taken.
func (c *Client) refused(cn *conn) {
	now := c.now()
	switch {
	case cn.refusing == 0:
		cn.refusing = now
	case now-cn.refusing >= elsewhereAfter && len(c.addrs) > 1:
		c.move.Store(true)
		cn.giveUp(errRefusing)
	}
}

// backoff is the n-th pause, from 0.
func backoff(n int, first, most time.Duration) time.Duration {
	d := first << min(n, 16)
	d = min(d, most)
	return d/2 + rand.N(d/2+1)
}

// pause waits, and answers false when the client was closed.
func (c *Client) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// linkError is why there is no connection, nil when there is one.
func (c *Client) linkError() error {
	c.link.Lock()
	defer c.link.Unlock()
	return c.link.err
}

// ServerInfo says which server a client is connected to. It is for people.
type ServerInfo struct {
	Address   string // as it was given to Dial
	NodeID    string
	ClusterID string // the same on every node of a cluster
	Version   string // of the server's program
}

// ServerInfo says which server the client is, or was last, connected to.
func (c *Client) ServerInfo() ServerInfo {
	c.link.Lock()
	defer c.link.Unlock()
	return c.link.server
}

// Server answers the id of the node that the client is, or was last, connected to.
func (c *Client) Server() string { return c.ServerInfo().NodeID }

// Close ends the client: requests that are under way fail with ErrClosed, its
// locks are lost, and the server frees them after the grace at the latest. Unlock
// what you hold first to free it at once. Close must not be called from a callback
// of Go or Batch.
func (c *Client) Close() error {
	c.closing.Do(func() {
		calls, cn := c.session.shut(ErrClosed)
		c.end()
		if cn != nil {
			cn.nc.Close()
		}
		<-c.done // nobody else lands calls from here on
		c.fail(calls, ErrClosed)
		c.keeper.close()
		c.subs.close(ErrClosed)
		c.watch.close()
		c.running.Wait()
	})
	return nil
}

// fail answers calls with an error.
func (c *Client) fail(calls []*call, err error) {
	for _, one := range calls {
		one.to.land(one, &reply{err: err})
	}
}
