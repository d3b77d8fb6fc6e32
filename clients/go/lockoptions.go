package pathlockd

import (
	"context"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// Mode is how a path is locked: Write or Read.
type Mode = wire.Mode

// Modes. A semaphore's permit is taken with Write.
const (
	Write = wire.ModeWrite
	Read  = wire.ModeRead
)

// Path is one path of a lock.
type Path struct {
	Path    string
	Mode    Mode
	Permits uint32 // of a semaphore: how many may hold the path at once
}

// LockOption configures one lock.
type LockOption func(*lockOptions)

type lockOptions struct {
	ttl      time.Duration
	owner    string
	token    int64
	labels   map[string]string
	onQueued func(Queued)
	onRevoke func(*Lock)
	bound    bool // its context ends with the one it is taken with
}

// Queued is a lock's place in the queue.
type Queued struct {
	Position uint64      // from 1
	Path     string      // what blocks
	Owner    string      // who holds it, or waits for it (ReasonQueued)
	Reason   wire.Reason // in which way it blocks
	Token    int64       // the fencing token the lock will have, 0 when it will have none
}

// minTTL is the shortest TTL a lock may have: one that is to be renewed in time
// must outlast a few round trips.
const minTTL = 50 * time.Millisecond

// TTL sets how long the lock outlives the last renewal, 30 s unless set, at least
// 50 ms. It is renewed at a third of it, for as long as it is held.
func TTL(d time.Duration) LockOption { return func(o *lockOptions) { o.ttl = d } }

// Owner sets the lock's owner. An owner never excludes itself: two locks of the
// same owner on the same path are one lock, which either of them gives back: the other
// is lost then, at once if it is this client's, and else within its TTL. Unless set, each
// lock has an owner of its own, so that the goroutines of a process exclude each other. That
// one is for looking at: who acquires or releases in its name elsewhere gives the lock away, and
// nobody tells its holder. Name an owner that several are to share. What another client has taken in its name and in
// the same namespace, and tied to nothing, is tied to this client's connection by the lock.
func Owner(owner string) LockOption { return func(o *lockOptions) { o.owner = owner } }

// Token brings the lock's own fencing token instead of one that the server makes.
// It must be above every token the path has seen.
func Token(token int64) LockOption { return func(o *lockOptions) { o.token = token } }

// Labels adds labels to what people see who look at the lock.
func Labels(labels map[string]string) LockOption { return func(o *lockOptions) { o.labels = labels } }

// OnQueued has f called when the lock has to wait, on the goroutine that waits for
// it, and again when it waits on after the connection was lost.
func OnQueued(f func(Queued)) LockOption { return func(o *lockOptions) { o.onQueued = f } }

// OnRevoke has f called, once and on a goroutine of its own, when somebody asks the
// lock's owner to let go.
func OnRevoke(f func(*Lock)) LockOption { return func(o *lockOptions) { o.onRevoke = f } }

// newLock makes a lock that is not held yet, and the request that takes it.
func (c *Client) newLock(ctx context.Context, paths []Path,
	opts []LockOption) (*Lock, *wire.Request, *lockOptions, error) {
	o := &lockOptions{ttl: DefaultTTL}
	for _, set := range opts {
		set(o)
	}
	switch {
	case len(paths) == 0:
		return nil, nil, nil, refuse(wire.OpAcquire, "names no path")
	case o.ttl < minTTL || o.ttl.Milliseconds() > wire.MaxTTLMillis:
		return nil, nil, nil, refuse(wire.OpAcquire, "TTL %v: must be from %v to 7 days", o.ttl, minTTL)
	}
	alone := o.owner == ""
	if alone {
		o.owner = c.newOwner()
	} else {
		c.used.lock(c, o.owner)
	}
	l := &Lock{c: c, owner: o.owner, alone: alone, paths: paths, ttl: o.ttl, parent: ctx, bound: o.bound,
		onRevoke: o.onRevoke}
	req := &wire.Request{
		Op: wire.OpAcquire, Owner: o.owner, TTLMillis: millis(o.ttl), Token: o.token, Flags: wire.FlagBind,
		Locks: make([]wire.LockRequest, len(paths)),
	}
	for i, p := range paths {
		req.Locks[i] = wire.LockRequest{Path: p.Path, Mode: p.Mode, Permits: p.Permits}
	}
	if len(paths) > wire.MaxPaths {
		req.Flags |= wire.FlagBulk
	}
	if len(o.labels) > 0 {
		meta, err := c.opt.metadata(o.labels)
		if err != nil {
			return nil, nil, nil, err
		}
		req.Meta = meta
	}
	if err := req.Validate(); err != nil {
		return nil, nil, nil, &refusal{wire.OpAcquire, *err}
	}
	return l, req, o, nil
}
