package pathlockd

import (
	"context"
	crand "crypto/rand"
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

// Client is a connection to a pathlockd server, or to the servers of a cluster, that
// mends itself. Its methods may be called by any number of goroutines.
type Client struct {
	opt   options
	addrs []address
	meta  []byte // what it says of itself, encoded
	name  string // what owners it makes up begin with

	home    *lane
	router  router
	keeper  keeper
	taking  atomic.Int64 // calls that take a lock and have not returned
	subs    subscriptions
	watch   topologyWatch
	binds   binds
	gates   gates
	used    usedOwners
	waiters sync.Pool // *waiter

	owners      atomic.Uint64
	connections atomic.Uint64
	frame       atomic.Int64 // bytes of the longest payload the server takes
	settles     atomic.Bool  // and that it takes up to where answers are settled
	cluster     atomic.Value // string: its id, as the home lane last heard it

	longestQueue time.Duration // most that a request may wait

	ctx     context.Context // ends with Close
	end     context.CancelFunc
	leaving chan struct{} // closed when Close begins
	running sync.WaitGroup
	closing sync.Once
}

// Pauses between rounds of connecting: they double, and are drawn from the upper
// half.
const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = 2 * time.Second
)

// Dial connects to a server. addr is host:port, unix:/path, or several of them
// with commas between, of which the first that answers is taken, now and whenever a connection is
// lost: nodes of one cluster, whose others the client gets to know by itself. ctx is
// for connecting alone.
//
// From then on the Client connects anew by itself. Requests wait for that within
// their contexts; those that a broken connection left unanswered are sent again,
// and carried out once.
func Dial(ctx context.Context, addr string, opts ...Option) (*Client, error) {
	c := &Client{opt: defaults(), longestQueue: wire.MaxTTLMillis * time.Millisecond, leaving: make(chan struct{})}
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
	c.home = c.newLane("")
	c.router.init(c)
	c.keeper.init(c)
	c.subs.c, c.watch.c = c, c
	c.subs.mu.all = make(map[*Subscription]struct{})
	c.subs.mu.known = make(map[uint64]*Subscription)
	c.watch.mu.to = make(map[chan *wire.Topology]struct{})
	cn, err := c.first(ctx)
	if err != nil {
		c.end()
		return nil, err
	}
	c.home.attach(cn)
	go c.home.run(cn)
	c.spawn(c.keeper.run)
	return c, nil
}

// first makes the first connection. Every address is tried in short, and if none
// takes it, once more with patience.
func (c *Client) first(ctx context.Context) (*conn, error) {
	for round := 0; ; round += 16 {
		cn, err := c.race(ctx, c.home, c.addrs, c.patience(round, len(c.addrs)))
		if err == nil {
			return cn, nil
		}
		late := errors.Is(err, context.DeadlineExceeded)
		if !late || ctx.Err() != nil || round > 0 || len(c.addrs) == 1 || c.opt.dialTimeout <= quickly {
			return nil, err
		}
	}
}

// ownerPrefix begins the owners that the client makes up: 128 random bits tell the client
// from any other, host and process tell people where it runs.
func ownerPrefix() string {
	const most = 64
	var b [16]byte
	_, _ = crand.Read(b[:]) // never fails
	if planted == plantShortOwners {
		clear(b[4:])
	}
	host, _ := os.Hostname()
	return fmt.Sprintf("%.*s-%d-%x-", most, host, os.Getpid(), b)
}

// newOwner makes up an owner that nobody else has.
func (c *Client) newOwner() string {
	var b [192]byte
	return string(strconv.AppendUint(append(b[:0], c.name...), c.owners.Add(1), 10))
}

// spawn runs f on a goroutine that Close waits for; not at all when the client is
// closed.
func (c *Client) spawn(f func()) {
	s := &c.home.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed != nil {
		return
	}
	c.running.Add(1)
	go func() {
		defer c.running.Done()
		f()
	}()
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

// ServerInfo says which server a client is connected to. It is for people.
type ServerInfo struct {
	Address   string // as it was given to Dial
	NodeID    string
	ClusterID string // the same on every node of a cluster
	Version   string // of the server's program
}

// ServerInfo says which server the client is, or was last, connected to.
func (c *Client) ServerInfo() ServerInfo {
	s, _ := c.home.server()
	return s
}

// Server answers the id of the node that the client is, or was last, connected to.
func (c *Client) Server() string { return c.ServerInfo().NodeID }

// Close ends the client: requests that are under way fail with ErrClosed and its locks are lost, whose contexts end
// first. Then it gives back what it holds and waits for: it takes a second for that at most, in which it asks elsewhere
// when a server does not take it, and what no server hears of by then ends after the grace. Close must not be called
// from a callback of Go or Batch.
func (c *Client) Close() error {
	c.closing.Do(func() {
		c.retreat()
		calls, cn := c.home.session.shut(ErrClosed)
		c.end()
		if cn != nil {
			cn.nc.Close()
		}
		<-c.home.done // nobody else lands calls from here on
		c.router.close()
		c.fail(calls, ErrClosed)
		c.subs.close(ErrClosed)
		c.watch.close()
		c.running.Wait()
	})
	return nil
}

// fail answers calls with an error.
func (c *Client) fail(calls []*call, err error) {
	for _, one := range calls {
		c.failEach([]failedCall{{one, err}})
	}
}

// failEach is fail, each with an error of its own.
func (c *Client) failEach(calls []failedCall) {
	for _, f := range calls {
		w := f.one.settle()
		f.one.to.land(f.one, &reply{err: f.err})
		if w != nil {
			w.settled()
		}
	}
}
