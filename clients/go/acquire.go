package pathlockd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// Lock takes a write lock on a path, waiting for it in the order of arrival until
// ctx ends. The lock is renewed until Unlock, or until it is lost.
//
// ctx is for the waiting alone: that it ends later does not touch the lock. With a
// deadline the place in the queue ends at that time, without one never.
func (c *Client) Lock(ctx context.Context, path string, opts ...LockOption) (*Lock, error) {
	return c.lock(ctx, true, []Path{{Path: path}}, opts)
}

// TryLock is Lock that does not wait: what stands in the way is told by a
// ConflictError.
func (c *Client) TryLock(ctx context.Context, path string, opts ...LockOption) (*Lock, error) {
	return c.lock(ctx, false, []Path{{Path: path}}, opts)
}

// RLock is Lock for reading: it is shared with other readers of exactly that path.
func (c *Client) RLock(ctx context.Context, path string, opts ...LockOption) (*Lock, error) {
	return c.lock(ctx, true, []Path{{Path: path, Mode: Read}}, opts)
}

// TryRLock is TryLock for reading.
func (c *Client) TryRLock(ctx context.Context, path string, opts ...LockOption) (*Lock, error) {
	return c.lock(ctx, false, []Path{{Path: path, Mode: Read}}, opts)
}

// Semaphore takes one of so many permits of a path, in a namespace whose algorithm
// is semaphore. Who holds the path first sets the number; others must name the same.
func (c *Client) Semaphore(ctx context.Context, path string, permits uint32, opts ...LockOption) (*Lock, error) {
	return c.lock(ctx, true, []Path{{Path: path, Permits: permits}}, opts)
}

// TrySemaphore is Semaphore that does not wait.
func (c *Client) TrySemaphore(ctx context.Context, path string, permits uint32, opts ...LockOption) (*Lock, error) {
	return c.lock(ctx, false, []Path{{Path: path, Permits: permits}}, opts)
}

// LockAll takes several paths of one namespace at once, all or none, under one
// token, waiting as Lock does.
func (c *Client) LockAll(ctx context.Context, paths []Path, opts ...LockOption) (*Lock, error) {
	return c.lock(ctx, true, slices.Clone(paths), opts)
}

// TryLockAll is LockAll that does not wait.
func (c *Client) TryLockAll(ctx context.Context, paths []Path, opts ...LockOption) (*Lock, error) {
	return c.lock(ctx, false, slices.Clone(paths), opts)
}

// WithLock takes a write lock on a path and calls f while it is held. f's context
// ends with ctx, or when the lock is lost; f must stop then. That the lock was lost
// while f ran is an error, whatever f returns.
func (c *Client) WithLock(ctx context.Context, path string, f func(ctx context.Context, l *Lock) error,
	opts ...LockOption) (err error) {
	l, err := c.Lock(ctx, path, append(slices.Clone(opts), func(o *lockOptions) { o.bound = true })...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Unlock()) }()
	return f(l.Context(), l)
}

// lock takes a lock.
func (c *Client) lock(ctx context.Context, wait bool, paths []Path, opts []LockOption) (*Lock, error) {
	l, req, o, err := c.newLock(ctx, paths, opts)
	if err != nil {
		return nil, err
	}
	c.taking.Add(1) // Close waits: what is granted meanwhile is given back
	defer c.taking.Add(-1)
	if !l.alone {
		c.keeper.expect(l)
		defer c.keeper.expected(l)
		if kept := c.keeper.named(l.owner, paths[0].Path); kept && (len(paths) > 1 || req.Token > 0) {
			if err := c.acquaint(ctx, l.owner, l.paths); err != nil {
				return nil, err
			}
		}
	}
	req.Flags |= wire.FlagNoQueue
	if wait {
		req.Flags ^= wire.FlagNoQueue | wire.FlagWait
	}
	for {
		ans, err := c.ask(ctx, req, o, l.alone)
		unknown := errors.Is(err, ErrOutcomeUnknown)
		switch {
		case err == nil:
		case wait && codeOf(err) == wire.DeadlineExceeded && waitedOut(ctx):
			return nil, ended(ctx, err)
		case wait && isWaitOver(err): // the server's clock is ahead of this one, or it lets nobody wait for so long
			pauseFor(ctx, maxRetry)
			if ctx.Err() != nil {
				return nil, ended(ctx, err)
			}
			continue
		case ctx.Err() != nil && (unknown || codeOf(err) == wire.Unavailable || codeOf(err) == wire.Cancelled ||
			errors.Is(err, context.Cause(ctx))):
			return nil, ended(ctx, err)
		case errors.Is(err, ErrOutcomeUnknown) && ctx.Err() == nil, wait && codeOf(err) == wire.Cancelled:
			// The session was forgotten, or its wait was. What was taken all the same is given
			// back first.
			continue
		default:
			return nil, err
		}
		switch res := &ans.result; res.Status {
		case wire.StatusOK:
			held, err := c.settle(ctx, l, res, ans)
			if held {
				return l, nil
			}
			if err != nil {
				return nil, ended(ctx, err)
			}
		case wire.StatusLost: // taken, and lost before we heard of it; maybe in part
			l.took(res, ans)
			c.undone(l)
		default:
			return nil, &ConflictError{Path: res.Path, Owner: res.Owner, Reason: res.Reason, CurrentToken: res.Current}
		}
	}
}

// waitedOut says that a server which ended a wait as its time was over did so at the
// caller's own deadline, and waits until the caller's context says so as well.
func waitedOut(ctx context.Context) bool {
	const about = 10 * time.Millisecond // the context's timer may be a little late
	if at, ok := ctx.Deadline(); !ok || time.Until(at) > about {
		return ctx.Err() != nil
	}
	<-ctx.Done()
	return true
}

// pauseFor waits so long, or until ctx ends.
func pauseFor(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// ended is the error of a caller whose context has ended: its own, and that of no request,
// as what that took is given back. Any other error stays what it is.
func ended(ctx context.Context, err error) error {
	own := ctx.Err()
	if own == nil || planted == plantOtherErrors || errors.Is(err, own) && !errors.Is(err, ErrOutcomeUnknown) {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, own) {
		own = fmt.Errorf("%w: %w", own, cause)
	}
	return fmt.Errorf("acquire: %w", own)
}

// ask asks for a lock once.
func (c *Client) ask(ctx context.Context, req *wire.Request, o *lockOptions, alone bool) (*answer, error) {
	if err := c.pass(ctx, req.Owner); err != nil {
		return nil, err
	}
	w := newWaiter(c)
	w.undo, w.alone = true, alone
	if req.Flags&wire.FlagWait != 0 {
		var limited bool
		req.QueueTTLMillis, limited = c.queueTTL(ctx)
		w.forever = !limited
	}
	if f := o.onQueued; f != nil {
		w.tell = make(chan wire.Result, 1)
		w.place = func(res *wire.Result) {
			f(Queued{Position: res.Position, Path: res.Path, Owner: res.Owner, Reason: res.Reason, Token: res.Token})
		}
	}
	return w.ask(ctx, req)
}

// queueTTL is how long a request may wait whose caller waits for ctx.
func (c *Client) queueTTL(ctx context.Context) (ms uint64, limited bool) {
	at, ok := ctx.Deadline()
	if !ok {
		return millis(c.longestQueue), false
	}
	left := time.Until(at)
	return millis(max(min(left, c.longestQueue), time.Millisecond)), left <= c.longestQueue
}

// settle makes a lock of a granted acquire. It answers false without an error when
// it turns out not to be held any more.
//
// A lease lasts at least until ttl after its acquire was first sent, also that of a waiter, whose lease starts at the
// grant. That is enough if little of it is over. Otherwise the lease is renewed, and measured from that, before the
// lock is handed out; also if the connection broke on the way, or the program renewed it for less, which may have
// shortened it, or has given no sign of life for long, or its owner is being unbound for as long; or if another lock of
// its owner on the path is given back meanwhile, which may take it along.
func (c *Client) settle(ctx context.Context, l *Lock, res *wire.Result, ans *answer) (held bool, err error) {
	l.took(res, ans)
	doubtful := ans.resent || c.keeper.curbed(l, ans)
	now := c.now()
	sure := ans.tie.since()
	if _, _, ends := c.binds.since(l.owner); ends { // it may hang on other connections since it was sent (keeper.stray)
		sure = ans.sent
	}
	doubtful = doubtful || c.keeper.risky(l, ans.sent)
	doubtful = doubtful || now-ans.sent > c.keeper.lasts(l)/renewAt ||
		now-sure > c.binds.grace(l.owner, c.opt.grace)/probes
	for {
		crossed, untold := c.keeper.uncross(l)
		if untold { // nothing that the server says tells whose it is
			err = nil
			break
		}
		if crossed || doubtful {
			if ans, held, err = c.confirm(ctx, l, crossed); !held {
				break
			}
			doubtful = false
		}
		if err = c.keeper.hold(l, ans); err == nil {
			return true, nil
		}
		if !errors.Is(err, errCrossed) { // the client is being closed
			break
		}
	}
	c.keeper.uncurb(l, "")
	c.undone(l) // some of it may be
	return false, err
}

// took takes note of what asked for the lock, and was granted.
func (l *Lock) took(res *wire.Result, ans *answer) {
	l.token, l.namespace = res.Token, res.Namespace
	l.by, l.in, l.as, l.resent = ans.id, &ans.tie.lane.session, ans.tie.as, ans.resent
	l.since = nil // what was told is of an earlier request
}

// undone gives back what is left of a lock that is not held as a whole, before it is asked for anew.
func (c *Client) undone(l *Lock) {
	c.give(l.undoing(), c.gates.close(l.owner)).leave()
}

// confirm renews a lock's lease until one renewal is answered well before the time it gives is over. One that was sent
// on two connections does not tell on which the lease hangs. And of an owner that the program names it does not tell
// whether the lock is in that lease: so what it holds is asked, behind the releases of its other locks. One path tells
// that, but if one of those crossed it.
func (c *Client) confirm(ctx context.Context, l *Lock, crossed bool) (ans *answer, held bool, err error) {
	req := &wire.Request{
		Op: wire.OpRenew, Owner: l.owner, TTLMillis: millis(l.ttl), Domains: []string{domainOf(l.namespace)},
		Flags: keepFlags,
	}
	for try := 1; ; try++ {
		if !l.alone {
			if err := c.pass(ctx, l.owner); err != nil {
				return nil, false, err
			}
		}
		c.keeper.uncurb(l, l.namespace)
		w := newWaiter(c)
		w.share = c.shareOf(l.namespace)
		ans, err := w.ask(ctx, req)
		lasts := c.keeper.lasts(l)
		quick := err == nil && !ans.resent && c.now()-ans.sent <= lasts*2/renewAt
		if err == nil && !l.alone && ans.result.Status == wire.StatusOK {
			ans.seen = c.now()
			if held, err := c.has(ctx, l, crossed); !held {
				return nil, false, err
			}
			quick = quick && c.now()-ans.sent < lasts-margin(lasts)
		}
		switch {
		case err != nil && errors.Is(err, ErrOutcomeUnknown) && ctx.Err() == nil:
		case err != nil:
			return nil, false, err
		case ans.result.Status != wire.StatusOK:
			return nil, false, nil
		case quick:
			return ans, true, nil
		case !ans.resent && try >= confirmTries:
			return nil, false, fmt.Errorf("acquire: a lease of %v: %w", lasts, ErrUncertain)
		}
	}
}

// confirmTries is how often a lease is renewed that a lock is to be handed out with, until too little of it is over
// when that is answered: the way may be too long for it.
const confirmTries = 8

// has says that a lock's owner holds all its paths, by this lock. If not all are asked about, and there are more than a
// page tells, it is enough that it surely holds one. That need not be on the first page: then it is asked about that
// path.
func (c *Client) has(ctx context.Context, l *Lock, all bool) (bool, error) {
	k := &c.keeper
	held, asked := make(holds), false
	req := wire.Request{Op: wire.OpListLocks, Owner: l.owner, Domains: []string{domainOf(l.namespace)},
		Page: wire.MaxDumpPage}
	for res, err := range c.lists(ctx, req) {
		if err != nil {
			return false, err
		}
		held.addAll(list(res).Infos)
		k.mu.Lock()
		enough := !all && !res.Done && l.on(held)
		k.mu.Unlock()
		if !all && !enough && !res.Done && l.fenced() != "" && !asked {
			asked = true
			ans, err := c.call(ctx, l.assert())
			enough = err == nil && ans.Status == wire.StatusOK
		}
		if enough {
			return true, nil
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	_, missing := l.missing(held)
	return !missing, nil
}
