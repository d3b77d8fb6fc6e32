package pathlockd

import (
	"context"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// binds is the owners that hang on the client's connection as a whole (Bind). They
// are bound again on each new connection.
type binds struct {
	mu    sync.Mutex
	owned map[string]*wire.Request
}

// Bind ties all leases that an owner has, or will get through this client, to the
// client's connection, with a grace of its own; with a ttl above 0 it renews them
// too. It answers whether the owner has a lease now. The locks of Lock and the like
// need no Bind.
//
// While an owner is bound, the client sends everything over one connection.
func (c *Client) Bind(ctx context.Context, owner string, grace, ttl time.Duration) (alive bool, err error) {
	req := &wire.Request{Op: wire.OpBind, Owner: owner, GraceMillis: millis(grace), TTLMillis: millis(ttl)}
	b := &c.binds
	b.mu.Lock()
	if b.owned == nil {
		b.owned = make(map[string]*wire.Request)
	}
	before, again := b.owned[owner]
	b.owned[owner] = req // now, as the connection may break right after the answer
	c.router.bind(true)
	b.mu.Unlock()
	a, err := newWaiter(c).ask(ctx, req)
	if err == nil {
		return a.result.Status == wire.StatusOK, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.owned[owner] != req: // somebody else has changed it since
	case again:
		b.owned[owner] = before
	default:
		delete(b.owned, owner)
	}
	c.router.bind(len(b.owned) > 0)
	return false, err
}

// Unbind ends what Bind began.
func (c *Client) Unbind(ctx context.Context, owner string) error {
	c.binds.mu.Lock()
	delete(c.binds.owned, owner)
	c.router.bind(len(c.binds.owned) > 0)
	c.binds.mu.Unlock()
	_, err := newWaiter(c).ask(ctx, &wire.Request{Op: wire.OpUnbind, Owner: owner})
	return err
}

// resume binds everybody again, on a new connection.
func (b *binds) resume(c *Client) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, req := range b.owned {
		one := newCall(ignored{})
		one.set(req)
		one.urgent = true
		if c.home.session.submit(one) != nil {
			one.free()
		}
	}
}
