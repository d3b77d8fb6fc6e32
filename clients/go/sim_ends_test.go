package pathlockd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// simClient is a client of the simulation, which ends now and then, and another one begins in its place.
type simClient struct {
	name string
	opts []Option

	mu    sync.Mutex
	c     *Client
	count int // of those that ended
}

// current is the one that there is, and in whose name its programs lock.
func (c *simClient) current() (*Client, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.c, fmt.Sprintf("me-%s.%d", c.name, c.count)
}

func (c *simClient) owner() string {
	_, owner := c.current()
	return owner
}

// begin ends it now and then, in the middle of everything, and begins another one.
func (c *simClient) begin(ctx context.Context, r *simRun, rnd *rand.Rand) {
	for {
		pauseFor(ctx, time.Duration(rnd.Int64N(int64(20*time.Second))))
		if ctx.Err() != nil {
			return
		}
		began := time.Now()
		must(r.t, c.c.Close())
		if took := time.Since(began); took > closeWithin+100*time.Millisecond {
			r.wrong("Close of %s took %v", c.name, took)
		}
		next, err := Dial(ctx, r.addresses(), c.opts...)
		for ; err != nil; next, err = Dial(context.Background(), r.addresses(), c.opts...) {
			time.Sleep(100 * time.Millisecond)
		}
		c.mu.Lock()
		c.c, c.count = next, c.count+1
		c.mu.Unlock()
	}
}

// ends says that clients of the run end in the middle.
func (r *simRun) ends() bool { return r.seed%3 == 0 }

// ttl draws one. What a client that ends without a server that hears of it leaves behind may last for that.
func (r *simRun) ttl(rnd *rand.Rand) time.Duration {
	all := simTTLs
	if r.ends() {
		all = all[:3]
	}
	if r.moves.two {
		all = []time.Duration{all[r.seed%2], all[len(all)-1]}
	}
	return all[rnd.IntN(len(all))]
}

// follow has an actor go on with the client that there is.
func (a *actor) follow() {
	c, owner := a.of.current()
	if a.c = c; a.owner != "" {
		a.owner = owner + a.suffix
	}
}

// unbound says that in the run nobody binds or renews by hand, and no grace is short: so no lock that was just taken
// may be lost before its TTL is over, but to somebody.
func (r *simRun) unbound() bool { return r.seed%4 == 1 }

// grace draws a client's.
func (r *simRun) grace(p *simProxy) time.Duration {
	if grace := simGraces[p.pick(len(simGraces))]; !r.unbound() {
		return grace
	}
	return DefaultGrace
}
