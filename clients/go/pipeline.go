package pathlockd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pathlockd/pathlockd/wire"
)

// doneFunc is the receiver of a call of Go or Batch.
type doneFunc func(res *wire.Result, err error)

func (f doneFunc) land(c *call, r *reply) {
	c.gave(r)
	err := r.decode(c, &r.scratch)
	if c.refusedAgain(err) {
		err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	c.free()
	if err != nil {
		f(nil, err)
		return
	}
	f(&r.scratch, nil)
}

// Go asks req and calls done with the answer. It does not wait: over the window, or
// while there is no connection, the request waits to be sent; when as many wait as
// the backlog takes (WithBacklog), done gets ErrBacklog and the request was not
// sent. req is not kept.
//
// done is called once, on the goroutine that reads the connection. It must not
// block, nor call Do or anything else that waits for an answer; it may call Go. The
// result and its strings are valid until it returns: copy what you keep. What done
// sends is written together with what the other answers of the same burst bring
// forth.
//
// Nothing is tried again but what a broken connection left unanswered. done may be
// nil.
//
// An acquire that names what a Lock of the same owner holds raises its token. Do asks the server first since when that
// is held; Go cannot wait for it, and a lock that was taken within the last second may count as lost then.
func (c *Client) Go(req *wire.Request, done func(res *wire.Result, err error)) {
	one, err := c.async(req, done)
	if err == nil {
		c.begin(one, req)
		if err = c.submit(one, req); err == nil {
			return
		}
		one.drop()
	}
	if done != nil {
		done(nil, err)
	}
}

// async makes the call of a request.
func (c *Client) async(req *wire.Request, done func(*wire.Result, error)) (*call, error) {
	if err := c.allowed(req.Op); err != nil {
		return nil, err
	}
	var to receiver = ignored{}
	if done != nil {
		to = doneFunc(done)
	}
	one := newCall(to)
	one.set(req)
	one.async = true
	if req.Op == wire.OpAcquire {
		c.used.request(c, req.Owner)
	}
	one.lowers = req.Op == wire.OpRenew || givesBack(req)
	if err := c.fitsFrame(one); err != nil {
		one.free()
		return nil, err
	}
	return one, nil
}

// shortened is the receiver of a renewal that may shorten leases.
type shortened struct {
	*shortening
	then receiver
}

// land implements receiver.
func (s *shortened) land(c *call, r *reply) {
	s.end(c.outcome(r), nil)
	s.then.land(c, r)
}

// begin is called before a call of Go or Batch is sent.
func (c *Client) begin(one *call, req *wire.Request) {
	if req != nil {
		c.keeper.names(req)
	}
	if !one.lowers {
		return
	}
	s, g := c.keeper.foresees(req)
	if one.gives = g; s != nil {
		one.to = &shortened{s, one.to}
		if s.begin() {
			one.hurries()
		}
	}
}

// drop takes a call back that was not sent.
func (c *call) drop() {
	if s, ok := c.to.(*shortened); ok {
		s.end(ending{}, nil)
	}
	if c.gives != nil {
		c.gives.over(c, nil, ending{})
	}
	c.free()
}

// Batch is requests that are sent together, in one write as far as the window
// goes. It is used by one goroutine at a time.
type Batch struct {
	c     *Client
	calls []*call
	req   wire.Request // to look at one of them
}

// Batch answers an empty batch, which can be used again and again.
func (c *Client) Batch() *Batch { return &Batch{c: c} }

// Add adds a request. What Go says of req and done holds here. An error says why
// the request was not added.
func (b *Batch) Add(req *wire.Request, done func(res *wire.Result, err error)) error {
	one, err := b.c.async(req, done)
	if err != nil {
		return err
	}
	b.calls = append(b.calls, one)
	return nil
}

// Len is how many requests were added since the last Send.
func (b *Batch) Len() int { return len(b.calls) }

// Send sends the requests, in the order in which they were added, and empties the
// batch. While the backlog is full it waits, until ctx ends: then nothing was sent,
// and the batch is as it was. Send must not be called from a callback.
func (b *Batch) Send(ctx context.Context) error {
	for _, l := range b.c.router.all() {
		if err := l.session.hasRoom(ctx); err != nil {
			return err
		}
	}
	if err := b.c.router.hasRoom(ctx); err != nil {
		return err
	}
	var f flusher
	for i, one := range b.calls {
		one.pressed = true // they all go, or none does
		req := b.look(one)
		b.c.begin(one, req)
		mine, err := b.c.put(one, req)
		if err != nil { // the client is closed: who is sent already is told by that
			b.calls = b.calls[i:]
			return err
		}
		if f.cn != mine.cn && mine.cn != nil {
			f.flush()
			f = mine
		}
	}
	clear(b.calls)
	b.calls = b.calls[:0]
	f.flush()
	return nil
}

// look decodes a request again, if its way, or what is believed in of locks, depends on what it asks.
func (b *Batch) look(one *call) *wire.Request {
	if b.c.router.table.Load() == nil && !one.lowers && (one.op != wire.OpAcquire || b.c.keeper.count.Load() == 0) {
		return nil
	}
	b.req.Reset()
	if _, _, _, err := wire.DecodeRequest(one.frame[payloadAt:], &b.req); err != nil {
		panic("pathlockd: a request of our own does not decode: " + err.Error())
	}
	return &b.req
}

// hasRoom waits until the backlog of a session takes more.
func (s *session) hasRoom(ctx context.Context) error {
	for {
		s.mu.Lock()
		if err := s.mu.closed; err != nil && !errors.Is(err, errRetired) {
			s.mu.Unlock()
			return err
		}
		if s.mu.closed != nil || s.mu.backlog < s.c.opt.backlog {
			s.mu.Unlock()
			return nil
		}
		ready := make(chan struct{})
		s.mu.room = append(s.mu.room, ready)
		s.mu.Unlock()
		select {
		case <-ready:
		case <-ctx.Done():
			s.mu.Lock()
			s.mu.room = slices.DeleteFunc(s.mu.room, func(other chan struct{}) bool { return other == ready })
			s.mu.Unlock()
			return context.Cause(ctx)
		}
	}
}
