package pathlockd

import (
	"context"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// The operations of PROTOCOL.md section 4 one by one, without anything on top. Lock
// and the like are built from some of them. Times are rounded up to milliseconds;
// lists that a result holds belong to the caller.

// call asks req and answers its result.
func (c *Client) call(ctx context.Context, req *wire.Request) (*wire.Result, error) {
	var a *answer
	var err error
	switch s, g := c.keeper.foresees(req); {
	case s != nil:
		a, err = c.shortly(ctx, s, req)
	case g != nil:
		a, err = c.giving(ctx, g, req)
	default:
		a, err = newWaiter(c).ask(ctx, req)
	}
	if err != nil {
		return nil, err
	}
	return &a.result, nil
}

// shortly asks req, which may shorten leases, or take locks back. If the caller goes first, it may do so until there
// is an answer to it all the same.
func (c *Client) shortly(ctx context.Context, s *shortening, req *wire.Request) (*answer, error) {
	w := newWaiter(c)
	w.insists = s.ttl > 0 && s.takes == nil // what it gives back may be a later lock's then
	w.urgent, w.then = s.begin(), func(with ending) { go s.end(with, ErrOutcomeUnknown) }
	a, left, err := w.tryAll(ctx, req)
	if !left {
		s.end(endingOf(a, err), nil)
	}
	return a, err
}

// giving asks req, which gives back what nobody has so far for whom locks are kept.
func (c *Client) giving(ctx context.Context, g *given, req *wire.Request) (*answer, error) {
	w := newWaiter(c)
	w.gives = g
	a, left, err := w.tryAll(ctx, req)
	if !left {
		g.over(nil, req, endingOf(a, err))
	}
	return a, err
}

// list is the lists of a result, which may have none.
func list(res *wire.Result) *wire.List {
	if res.List == nil {
		return new(wire.List)
	}
	return res.List
}

// Ping asks for a sign of life of the connection's server.
func (c *Client) Ping(ctx context.Context) error {
	_, err := c.call(ctx, &wire.Request{Op: wire.OpPing})
	return err
}

// Health says whether the server can serve, and if not, why not.
func (c *Client) Health(ctx context.Context) (ok bool, detail string, err error) {
	res, err := c.call(ctx, &wire.Request{Op: wire.OpHealth})
	if err != nil {
		return false, "", err
	}
	return res.Flag, res.Message, nil
}

// Acquire asks for locks once. Conflicts, lost leases and places in the queue are
// results (Status). req.Op is set here.
func (c *Client) Acquire(ctx context.Context, req *wire.Request) (*wire.Result, error) {
	own := *req
	own.Op = wire.OpAcquire
	return c.Do(ctx, &own)
}

// Release gives paths back, and with delWait also the owner's wait edge. key is an
// idempotency key, "" for none, here and below: the session needs none.
func (c *Client) Release(ctx context.Context, owner string, paths []wire.ReleaseRequest, delWait bool,
	key string) error {
	_, err := c.call(ctx, &wire.Request{Op: wire.OpRelease, Owner: owner, Releases: paths, DelWait: delWait, Key: key})
	return err
}

// ReleaseAll gives back everything of an owner, or everything in the domains, and
// its places in the queue.
func (c *Client) ReleaseAll(ctx context.Context, owner string, delWait bool, key string, domains ...string) error {
	_, err := c.call(ctx, &wire.Request{Op: wire.OpReleaseAll, Owner: owner, DelWait: delWait, Key: key,
		Domains: domains})
	return err
}

// Renew sets the owner's leases to ttl from now on, everywhere or in the domains.
// Status says whether they are OK or LOST, Flag that somebody asks to let go.
func (c *Client) Renew(ctx context.Context, owner string, ttl time.Duration, key string, flags wire.Flags,
	domains ...string) (*wire.Result, error) {
	return c.call(ctx, &wire.Request{
		Op: wire.OpRenew, Owner: owner, TTLMillis: millis(ttl), Key: key, Flags: flags, Domains: domains,
	})
}

// ForceRelease takes everything away from an owner.
func (c *Client) ForceRelease(ctx context.Context, victim, key string) error {
	_, err := c.call(ctx, &wire.Request{Op: wire.OpForceRelease, Owner: victim, Key: key})
	return err
}

// AssertFencing says whether the owner holds the write on all the paths and token
// is their latest: Status, and if not, Path and Reason.
func (c *Client) AssertFencing(ctx context.Context, owner string, token int64, paths ...string) (*wire.Result, error) {
	return c.call(ctx, &wire.Request{Op: wire.OpAssertFencing, Owner: owner, Token: token, Paths: paths})
}

// DetectCycle follows wait edges from an owner.
func (c *Client) DetectCycle(ctx context.Context, owner string,
	depth uint32) (kind wire.CycleKind, chain []string, err error) {
	res, err := c.call(ctx, &wire.Request{Op: wire.OpDetectCycle, Owner: owner, Depth: depth})
	if err != nil {
		return 0, nil, err
	}
	return res.Cycle, list(res).Names, nil
}

// IsBlocking says whether what stood in the way still does.
func (c *Client) IsBlocking(ctx context.Context, path, owner string, reason wire.Reason) (bool, error) {
	res, err := c.call(ctx, &wire.Request{Op: wire.OpIsBlocking, Path: path, Blocker: owner, Reason: reason})
	return err == nil && res.Flag, err
}

// IncrFencingToken answers the next number of the cluster's own counter.
func (c *Client) IncrFencingToken(ctx context.Context, key string) (int64, error) {
	res, err := c.call(ctx, &wire.Request{Op: wire.OpIncrToken, Key: key})
	if err != nil {
		return 0, err
	}
	return res.Token, nil
}

// SetWaitEdge says that an owner waits for another. path and reason say why, or
// are both left out.
func (c *Client) SetWaitEdge(ctx context.Context, owner, blocker string, ttl time.Duration, path string,
	reason wire.Reason, key string) error {
	_, err := c.call(ctx, &wire.Request{
		Op: wire.OpSetWaitEdge, Owner: owner, Blocker: blocker, TTLMillis: millis(ttl), Path: path,
		Reason: reason, Key: key,
	})
	return err
}

// ClearWaitEdge takes that back.
func (c *Client) ClearWaitEdge(ctx context.Context, owner, key string) error {
	_, err := c.call(ctx, &wire.Request{Op: wire.OpClearWaitEdge, Owner: owner, Key: key})
	return err
}

// IsOwnerAlive says whether an owner has a lease, anywhere or in the domains.
func (c *Client) IsOwnerAlive(ctx context.Context, owner string, domains ...string) (bool, error) {
	res, err := c.call(ctx, &wire.Request{Op: wire.OpIsOwnerAlive, Owner: owner, Domains: domains})
	return err == nil && res.Flag, err
}

// RequestRevoke asks an owner to let go.
func (c *Client) RequestRevoke(ctx context.Context, owner string) error {
	_, err := c.call(ctx, &wire.Request{Op: wire.OpRequestRevoke, Owner: owner})
	return err
}

// SetNamespacePolicy sets the algorithm of a namespace.
func (c *Client) SetNamespacePolicy(ctx context.Context, namespace string, algorithm wire.Algorithm, key string) error {
	_, err := c.call(ctx, &wire.Request{Op: wire.OpSetPolicy, Namespace: namespace, Algorithm: algorithm, Key: key})
	return err
}

// GetNamespacePolicy answers the algorithm of a namespace, and whether somebody
// set it.
func (c *Client) GetNamespacePolicy(ctx context.Context,
	namespace string) (algorithm wire.Algorithm, explicit bool, err error) {
	res, err := c.call(ctx, &wire.Request{Op: wire.OpGetPolicy, Namespace: namespace})
	if err != nil {
		return 0, false, err
	}
	return res.Algorithm, res.Flag, nil
}

// DeleteNamespacePolicy lets a namespace have the default algorithm again.
func (c *Client) DeleteNamespacePolicy(ctx context.Context, namespace, key string) error {
	_, err := c.call(ctx, &wire.Request{Op: wire.OpDeletePolicy, Namespace: namespace, Key: key})
	return err
}
