package pathlockd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// Pauses before a request is asked again that a server could not take.
const (
	minRetry = 2 * time.Millisecond
	maxRetry = time.Second
)

// Do asks req and waits for the result, which is the caller's own. req is not kept.
//
// Refusals are errors, found with errors.As and *Error, or errors.Is and ErrAborted
// and the like; conflicts, lost leases and places in the queue are results.
// UNAVAILABLE is not answered but tried again until ctx ends, and so is what has an
// unknown outcome, by repeating it under its id, for as long as the server knows it.
//
// When ctx ends, Do returns at once. A request that changes something then has an
// unknown outcome (ErrOutcomeUnknown) if it was sent; but a waiting acquire
// (wire.FlagWait) is cancelled, and if it was granted before that, what it took is
// released again in the background.
func (c *Client) Do(ctx context.Context, req *wire.Request) (*wire.Result, error) {
	if err := c.allowed(req.Op); err != nil {
		return nil, err
	}
	if req.Op == wire.OpAcquire {
		c.used.request(c, req.Owner)
		if err := c.pass(ctx, req.Owner); err != nil {
			return nil, err
		}
	}
	if c.keeper.names(req) {
		paths := make([]Path, len(req.Locks))
		for i, l := range req.Locks {
			paths[i] = Path{Path: l.Path, Mode: l.Mode}
		}
		if err := c.acquaint(ctx, req.Owner, paths); err != nil {
			return nil, err
		}
	}
	return c.call(ctx, req)
}

// allowed refuses operations that are about one connection, which the client
// deals with itself.
func (c *Client) allowed(op wire.Op) error {
	switch op {
	case wire.OpHello, wire.OpSubscribe, wire.OpUnsubscribe, wire.OpTopology, wire.OpCancel, wire.OpBind, wire.OpUnbind:
		return refuse(op, "is about one connection: use the client's own method")
	}
	if spec, ok := op.Spec(); !ok || spec.Kind == wire.KindInternal {
		return refuse(op, "op %d: is not known to this client", op)
	}
	return nil
}

// fitsFrame refuses a request that is longer than what the server takes, and
// would cost the connection.
func (c *Client) fitsFrame(one *call) error {
	n, most := int64(len(one.frame)-payloadAt), c.frame.Load()
	if !c.settles.Load() {
		n -= settledBytes
	}
	if n > most {
		return refuse(one.op, "is %d bytes long, at most %d are allowed", n, most)
	}
	return nil
}

// answer is a result with the memory that its strings alias.
type answer struct {
	result wire.Result
	tie    *tie          // connection it came on
	sent   time.Duration // when the request was first sent, if that was asked for
	seen   time.Duration // when it was asked behind it what is held, and a lock was; 0: it was not
	id     uint64        // of the request
	resent bool          // it was asked again on a later connection
	store  [96]byte
}

// waiter is a caller of Do and its call.
type waiter struct {
	c                     *Client
	call                  *call
	state                 atomic.Uint32 // waiting, then answered or left: whichever comes first
	done                  chan struct{}
	tell                  chan wire.Result // places in the queue; nil: not wanted
	place                 func(*wire.Result)
	urgent, undo, forever bool          // of the call
	alone, insists        bool          // likewise
	raises                bool          // likewise
	share                 uint8         // likewise; not that of users: it is urgent
	owner                 string        // of the request
	then                  func(ending)  // of the call
	gives                 *given        // likewise
	inQueue               time.Duration // how long a waiting acquire may be in the queue
	// called when it has no answer for too long (unanswered.go); nil: it is waited for
	goesWithout func()
	ans         *answer
	err         error
}

const (
	stateWaiting = iota
	stateAnswered
	stateLeft
)

// newWaiter takes a waiter from the client's own pool.
func newWaiter(c *Client) *waiter {
	if w, ok := c.waiters.Get().(*waiter); ok {
		return w
	}
	return &waiter{c: c, done: make(chan struct{}, 1)}
}

// free gives a waiter back whose call has come back.
func (w *waiter) free() {
	if w.call.repeats {
		w.call.forgoes()
	}
	w.call.free()
	*w = waiter{c: w.c, done: w.done}
	w.c.waiters.Put(w)
}

// land implements receiver.
func (w *waiter) land(c *call, r *reply) {
	w.ans, w.err = nil, r.err
	if r.err == nil {
		w.ans, w.err = w.own(c, r)
	}
	if w.state.CompareAndSwap(stateWaiting, stateAnswered) {
		w.done <- struct{}{}
		return
	}
	w.c.orphaned(c, w.ans, w.err)
}

// own decodes a reply into memory of its own.
func (w *waiter) own(c *call, r *reply) (*answer, error) {
	a := &answer{id: c.id, tie: r.tie, sent: c.sent, resent: c.resent}
	rest := r.results.Rest()
	store := append(a.store[:0], rest...) // elsewhere when it does not fit
	r.results = wire.NewReader(store)
	if err := r.decode(c, &a.result); err != nil {
		return nil, err
	}
	return a, nil
}

// queued takes the place of a waiting acquire; the latest is kept until it is
// fetched.
func (w *waiter) queued(res *wire.Result) {
	if w.tell == nil {
		return
	}
	own := *res
	own.Path, own.Owner, own.Namespace = string([]byte(res.Path)), string([]byte(res.Owner)),
		string([]byte(res.Namespace))
	select {
	case <-w.tell:
	default:
	}
	w.tell <- own
}

// ask asks req until there is an answer, and frees the waiter.
func (w *waiter) ask(ctx context.Context, req *wire.Request) (*answer, error) {
	ans, _, err := w.tryAll(ctx, req)
	return ans, err
}

// tryAll is ask. left says that the call is under way still.
func (w *waiter) tryAll(ctx context.Context, req *wire.Request) (ans *answer, left bool, err error) {
	w.call = newCall(w)
	w.call.set(req)
	if w.undo || w.share != usersShare {
		w.call.ties = false // that of a Lock, of which the keeper knows
	}
	w.call.timed, w.call.forever = true, w.forever
	switch {
	case w.share != usersShare:
		w.call.urgent, w.call.share, w.call.raises = true, w.share, w.raises
	case w.urgent:
		w.call.hurries()
	}
	w.call.undo, w.call.alone = w.undo || w.call.waits, w.alone
	w.call.insists, w.call.then, w.call.gives = w.insists, w.then, w.gives
	w.call.repeats = true
	w.owner, w.inQueue = req.Owner, queueTime(req)
	if err := w.c.fitsFrame(w.call); err != nil {
		w.free()
		return nil, false, err
	}
	if ctx.Err() != nil {
		w.free()
		return nil, false, fmt.Errorf("%s: not sent: %w", req.Op, context.Cause(ctx))
	}
	for try := 0; ; try++ {
		again, err := w.once(ctx, req)
		if again == never {
			ans := w.ans
			w.forgo(err)
			w.free()
			return ans, false, err
		}
		if again == gone {
			return nil, true, err // the reader may still have it
		}
		if err := w.pause(ctx, backoff(try, minRetry, maxRetry), err); err != nil {
			if again == repeated {
				err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
			}
			w.forgo(err)
			w.free()
			return nil, false, err
		}
		c := w.call
		if again == anew {
			c.forgoes()
			c.id, c.on, c.resent, c.sent = 0, 0, false, 0
		} else {
			c.resent = true // whatever is answered now may be about this time alone
		}
	}
}

// forgo gives back what an acquire may have taken that nobody repeats under its id any
// more.
func (w *waiter) forgo(err error) {
	if w.call.undo && w.call.id != 0 && w.call.unknown(err) {
		req := w.call.request()
		b := w.c.undoing(w.call, req)
		w.c.give(b, w.c.gates.close(b.owner)).leave()
	}
}

// again says how to go on with a request.
type again int

const (
	never    again = iota // there is an answer
	gone                  // nobody waits any more
	anew                  // ask again: it was not carried out
	repeated              // repeat it under its id: nobody knows whether it was
)

// once asks the call one time.
func (w *waiter) once(ctx context.Context, req *wire.Request) (again, error) {
	w.state.Store(stateWaiting)
	if err := w.c.submit(w.call, req); err != nil {
		if errors.Is(err, errRetired) {
			err = fmt.Errorf("%s: %w: %w", req.Op, ErrOutcomeUnknown, err)
		}
		return never, err
	}
	if err := w.wait(ctx); err != nil {
		return gone, err
	}
	switch code := codeOf(w.err); code {
	case wire.Unavailable, wire.ResourceExhausted:
		switch repeat := w.call.refusedAgain(w.err); {
		case repeat && (w.call.waits || w.c.remembered(w.call)):
			return repeated, w.err
		case repeat:
			return never, fmt.Errorf("%w: %w", ErrOutcomeUnknown, w.err)
		case code == wire.Unavailable:
			return anew, w.err
		}
	case wire.DeadlineExceeded:
		if isWaitOver(w.err) { // asked again under its id it would be answered so again
			return never, w.err
		}
		if w.waitsOn() || !w.call.waits && w.call.mutates() && w.c.remembered(w.call) {
			return repeated, w.err
		}
	}
	if !w.call.undo && w.call.refusedAgain(w.err) { // what a lock took is given back
		return never, fmt.Errorf("%w: %w", ErrOutcomeUnknown, w.err)
	}
	return never, w.err
}

// waitsOn says that a waiting acquire has not been in the queue for its time yet, so
// that nobody but the server's own limits ended the call.
func (w *waiter) waitsOn() bool {
	return w.call.waits && (w.forever || w.c.now()-w.call.asked < w.inQueue)
}

// queueTime is how long a request may be in the queue.
func queueTime(req *wire.Request) time.Duration {
	if req.QueueTTLMillis == 0 {
		return wire.DefaultQueueTTLMillis * time.Millisecond
	}
	return time.Duration(req.QueueTTLMillis) * time.Millisecond
}

// wait waits for the answer. An error says that the caller went first.
func (w *waiter) wait(ctx context.Context) error {
	var leaving chan struct{} // what waits in the queue is taken back when the client is closed
	if w.call.waits {
		leaving = w.c.leaving
	}
	for {
		select {
		case <-w.done:
			return nil
		case res := <-w.tell:
			w.place(&res)
		case <-ctx.Done():
			return w.leave(context.Cause(ctx))
		case <-leaving:
			return w.leave(ErrClosed)
		}
	}
}

// leave is called when the caller goes, for a cause.
func (w *waiter) leave(cause error) error {
	op, undo, mutates := w.call.op, w.call.undo, w.call.mutates()
	one := w.call
	var g *gate
	if one.undo {
		g = w.c.gates.close(w.owner)
	}
	one.gate = g
	if !w.state.CompareAndSwap(stateWaiting, stateLeft) {
		<-w.done // it is there, or just about to be
		if w.call.undo {
			g.leave()
		}
		return nil
	}
	unsent := w.c.forsake(one)
	if unsent {
		one.over(ending{err: cause})
	}
	link := w.c.home.linkError()
	switch {
	case unsent && link != nil: // told to people, and no cause of the error
		return fmt.Errorf("%s: not sent: %w (%s)", op, cause, link.Error())
	case unsent || undo || !mutates:
		return fmt.Errorf("%s: %w", op, cause)
	}
	return fmt.Errorf("%s: %w: %w", op, ErrOutcomeUnknown, cause)
}

// pause waits before the next attempt.
func (w *waiter) pause(ctx context.Context, d time.Duration, last error) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-w.c.ctx.Done():
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", last, context.Cause(ctx))
	}
}
