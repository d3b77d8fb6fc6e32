package pathlockd

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// binds is the owners that hang on the client's connection as a whole (Bind). They
// are bound again on each new connection. The router's and the keeper's locks are taken
// before this one, and never under it.
type binds struct {
	mu    sync.Mutex
	owned map[string]*bound
	on    uint64 // the number of the connection that they were bound on last
}

// bound is an owner that is bound, or may be: nobody knows what became of a request
// whose answer did not come, or which was refused on its way.
type bound struct {
	req   *wire.Request // that binds it on the next connection, nil: none
	sure  *wire.Request // that was answered last, likewise
	fell  bool          // req is sure, as what was asked for since has failed
	grace time.Duration // the lowest that its leases may be given on this one
	began time.Duration // when the first was sent that ties it to this one, or to one before (Client.now)

	under   int      // how many Bind and Unbind are under way
	again   *rebound // that is under way as well; nil: none
	crossed bool     // several were at once, which are carried out in any order
	unknown bool     // nobody knows what became of one on this connection
	stays   bool     // an Unbind surely came to nothing: on this connection it is bound as before
	unbinds int      // how many Unbind are under way, or nobody knows what became of
}

// begin notes that something is asked for that changes how an owner is bound: req from
// now on, as the connection may break right after the answer, and on this one with the
// lower of what was and will be.
func (b *binds) begin(c *Client, owner string, req *wire.Request) *bound {
	defer c.router.bind()
	b.mu.Lock()
	defer b.mu.Unlock()
	o := b.owned[owner]
	if o == nil {
		if b.owned == nil {
			b.owned = make(map[string]*bound)
		}
		o = &bound{grace: c.opt.grace, began: c.now()}
		b.owned[owner] = o
	}
	if o.req = req; req != nil {
		o.grace = min(o.grace, graceOf(req))
	}
	o.crossed = o.under > 0 || o.again != nil
	o.fell = false
	o.under++
	if req == nil {
		o.unbinds++
	}
	return o
}

// end notes what became of it. An error says nothing of this connection, but that the
// owner is bound on the next one as before.
func (b *binds) end(c *Client, owner string, o *bound, req *wire.Request, err error) {
	defer c.router.bind()
	b.mu.Lock()
	defer b.mu.Unlock()
	o.under--
	if req == nil && (err == nil || untouched(err)) {
		o.unbinds--
	}
	switch {
	case err == nil:
		if o.sure, o.stays = req, false; o.fell {
			o.req = req
		}
	case req == nil:
		o.stays = true
	case o.req == req: // and nobody else has changed it since
		o.req, o.fell = o.sure, true
	}
	b.answered(c, owner, o, err)
}

// lingers counts a Bind as under way until what it returns is called as well: one that may shorten leases is asked
// again on the next connection also when its caller has gone, and binds the owner there. An error says that it has.
func (b *binds) lingers(c *Client, owner string, o *bound) (ended func(error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o.under++
	return func(err error) {
		defer c.router.bind()
		b.mu.Lock()
		defer b.mu.Unlock()
		o.under--
		b.answered(c, owner, o, err)
	}
}

// answered notes what became of a Bind or Unbind, and what is known of the owner now. Called under the lock.
func (b *binds) answered(c *Client, owner string, o *bound, err error) {
	o.unknown = o.unknown || err != nil && !untouched(err)
	if o.under == 0 && o.again == nil && !o.crossed && !o.unknown && !o.stays {
		b.know(c, owner, o)
	}
}

// untouched says that a request which failed was not looked at by any server, or refused, which changes nothing.
func untouched(err error) bool {
	code := codeOf(err)
	return code != wire.DeadlineExceeded && code != wire.Forgotten && !errors.Is(err, ErrOutcomeUnknown)
}

// know takes note that an owner is bound as it is to be, on this connection.
func (b *binds) know(c *Client, owner string, o *bound) {
	if o.req == nil {
		delete(b.owned, owner)
		return
	}
	o.grace = min(c.opt.grace, graceOf(o.req))
}

// any says that an owner is bound, or may be.
func (b *binds) any() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.owned) > 0
}

// graceOf is the grace of a Bind: with none a lease would not be sure at all.
func graceOf(req *wire.Request) time.Duration {
	return max(time.Duration(req.GraceMillis)*time.Millisecond, 1)
}

// Bind ties all leases that an owner has, or will get through this client, to the
// client's connection, with a grace of its own; with a ttl above 0 it renews them
// too, which may shorten them, and on each further connection extends them to it. It
// answers whether the owner has a lease now. The locks of Lock and the like need no Bind.
//
// While an owner is bound, or may be, the client sends everything over one connection. Until it is
// known what became of a Bind or Unbind, at the latest on the next connection, the lower of
// the two graces counts. Of several at once for an owner that is known after a later one.
func (c *Client) Bind(ctx context.Context, owner string, grace, ttl time.Duration) (alive bool, err error) {
	req := &wire.Request{Op: wire.OpBind, Owner: owner, GraceMillis: millis(grace), TTLMillis: millis(ttl)}
	o := c.binds.begin(c, owner, req)
	// A renewal that is under way may be carried out last, with the grace that it was asked for with.
	s := &shortening{shorter: shorter{ttl: ttl}, k: &c.keeper, owner: owner, grace: c.binds.grace(owner, c.opt.grace)}
	if ttl > 0 {
		s.ended = c.binds.lingers(c, owner, o)
	}
	a, err := c.shortly(ctx, s, req)
	c.binds.end(c, owner, o, req, err)
	c.keeper.widen(owner)
	if err != nil {
		return false, err
	}
	return a.result.Status == wire.StatusOK, nil
}

// Unbind ends what Bind began.
func (c *Client) Unbind(ctx context.Context, owner string) error {
	if began, bound, _ := c.binds.since(owner); bound {
		c.keeper.curb(owner, &shorter{}, c.binds.grace(owner, c.opt.grace), began) // for what is asked for already
	}
	o, began := c.binds.begin(c, owner, nil), c.now()
	c.keeper.unbound(owner, began)
	_, err := newWaiter(c).ask(ctx, &wire.Request{Op: wire.OpUnbind, Owner: owner})
	c.binds.end(c, owner, o, nil, err)
	c.keeper.unbound(owner, began) // it may have been carried out at any time
	return err
}

// grace answers the grace of an owner's leases, which have one of so much otherwise.
func (b *binds) grace(owner string, otherwise time.Duration) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o := b.owned[owner]; o != nil {
		return min(otherwise, o.grace)
	}
	return otherwise
}

// since says whether an owner is bound, or may be, and when the first of what binds it was sent; and whether that may
// be ended by what is under way.
func (b *binds) since(owner string) (began time.Duration, bound, ends bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o := b.owned[owner]; o != nil {
		return o.began, true, o.unbinds > 0
	}
	return 0, false, false
}

// least is the lowest grace that leases have, none of which has more than otherwise.
func (b *binds) least(otherwise time.Duration) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range b.owned {
		otherwise = min(otherwise, o.grace)
	}
	return otherwise
}

// resume binds everybody again, on a new connection. That takes no time from a lease,
// which may last longer for a lock that was renewed meanwhile: what is to be renewed is
// extended apart.
func (b *binds) resume(c *Client, on uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.on = on
	for owner, o := range b.owned {
		o.again, o.unknown, o.stays = nil, false, false
		if o.under == 0 { // what was under way is asked again, or never was
			o.crossed, o.unbinds = false, 0
			b.know(c, owner, o)
		}
		if o.req == nil {
			continue
		}
		o.crossed = o.under > 0
		c.rebind(owner, o, on)
	}
}

// rebind binds an owner on a connection as it is to be bound. Called under the lock of binds.
func (c *Client) rebind(owner string, o *bound, on uint64) {
	req := o.req
	r := &rebound{c: c, req: req, on: on}
	o.again = r
	r.ask(&wire.Request{Op: wire.OpBind, Owner: owner, GraceMillis: req.GraceMillis})
	if req.TTLMillis > 0 {
		r.ask(&wire.Request{Op: wire.OpRenew, Owner: owner, TTLMillis: req.TTLMillis, Flags: wire.FlagExtend})
	}
}

// rebound is an owner that is being bound again on one connection.
type rebound struct {
	c     *Client
	req   *wire.Request // that of Bind
	on    uint64
	tries int  // that failed; of the reader
	over  bool // another one was asked for in its place; under the lock of binds
}

// ask asks for a part of it.
func (r *rebound) ask(part *wire.Request) {
	one := newCall(r)
	one.set(part)
	one.urgent, one.share, one.only = true, bindsShare, r.on // answered when logs are that may have no leader
	if r.c.home.session.submit(one) != nil {
		one.free()
	}
}

// land implements receiver: what was refused is asked again, until the connection ends,
// which ends the calls that are about it, or the owner is bound otherwise.
func (r *rebound) land(c *call, answer *reply) {
	err := answer.decode(c, &answer.scratch)
	part := *c.request()
	part.Owner = r.req.Owner // in memory that stays
	c.free()
	b := &r.c.binds
	if err == nil {
		if part.Op == wire.OpBind {
			b.mu.Lock()
			r.ended(part.Owner, nil)
			b.mu.Unlock()
		}
		return
	}
	d := backoff(r.tries, minRenewRetry, maxRenewRetry)
	r.tries++
	r.c.spawn(func() {
		if !r.c.pause(d) {
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		switch o := b.owned[part.Owner]; {
		case r.over || r.on != b.on:
		case o != nil && o.req == r.req:
			r.ask(&part)
		case o != nil && o.req != nil && (o.again == r || o.again == nil): // as what it asks for has failed
			r.over = true
			r.c.rebind(part.Owner, o, r.on)
		case part.Op == wire.OpBind:
			r.ended(part.Owner, err)
		}
	})
}

// ended notes that the owner is bound again, or is not any more. Called under the lock of binds.
func (r *rebound) ended(owner string, err error) {
	b := &r.c.binds
	if o := b.owned[owner]; o != nil && o.again == r {
		o.again = nil
		b.answered(r.c, owner, o, err)
	}
}
