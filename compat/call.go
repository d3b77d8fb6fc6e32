package compat

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pathlockd/pathlockd/wire"
)

// bridge carries requests to the handler and waits for their answers. Requests that
// come in here have no identity that their client's repeat could share, but their
// idempotency key. What repeats them is the cluster, when their leader changes.
type bridge struct {
	handler  wire.Handler
	sessions sessions
	lastSub  atomic.Uint64 // number of the last subscription
	calls    sync.Pool     // *call
	leaving  chan struct{} // closed when the node stops
	mostHeld int64
	held     atomic.Int64 // bytes of requests that are not answered yet, of all connections

	mu struct {
		sync.Mutex
		waits  int           // acquires that wait in the queue, or are about to
		undone int           // acquires that are being taken back
		none   chan struct{} // closed when there are none any more; nil before leave
		ended  bool          // none is closed
	}
}

// leaveAtMost is how long acquires that wait may take to leave the queue when the node
// stops.
const leaveAtMost = 2 * time.Second

// leaveAll ends what would stay open, and answers once nothing of it is in the queue.
func (b *bridge) leaveAll() {
	none := make(chan struct{})
	b.mu.Lock()
	b.mu.none = none
	if b.mu.waits == 0 {
		b.mu.ended = true
		close(none)
	}
	b.mu.Unlock()
	close(b.leaving)
	late := time.NewTimer(leaveAtMost)
	defer late.Stop()
	select {
	case <-none:
	case <-late.C:
	}
}

// beginWait notes an acquire that may wait, unless the node stops.
func (b *bridge) beginWait() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.none != nil {
		return errStopping
	}
	b.mu.waits++
	return nil
}

// endWait notes that it does not wait any more.
func (b *bridge) endWait() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.waits--; b.mu.waits == 0 && b.mu.none != nil && !b.mu.ended {
		b.mu.ended = true
		close(b.mu.none)
	}
}

func newBridge(h wire.Handler, mostHeld int64) *bridge {
	b := &bridge{handler: h, leaving: make(chan struct{}), mostHeld: mostHeld}
	b.calls.New = func() any { return &call{bridge: b, done: make(chan struct{}, 1)} }
	return b
}

// call is one request on its way. It is used again once it is answered, and left to
// the collector when its caller goes before that.
type call struct {
	wire.Call
	bridge *bridge
	of     *session
	req    wire.Request
	list   []*wire.Call      // itself
	done   chan struct{}     // told once, by Reply
	queued chan *wire.Result // of a watched wait: told at most once, by Queued
	aside  bool              // its session is another call's, which gives it back
	held   int64             // bytes, as counted in the bridge's
}

const (
	// maxHeld bounds the bytes of requests that are not answered yet, unless the options say
	// otherwise. Connections bound how many these are, and one may be 4 MiB long.
	maxHeld = 256 << 20
	// fairRequest is what a request may have of them when there are too many: who is not the
	// cause of it goes on.
	fairRequest = 64 << 10
)

// hold counts a request in until it is answered, unless that is too much.
func (b *bridge) hold(c *call) *wire.Error {
	n := 2 * int64(len(c.Body)) // it is kept as it was decoded, too
	if total := b.held.Add(n); total > b.mostHeld && n > fairRequest {
		b.held.Add(-n)
		return wire.Errorf(wire.ResourceExhausted,
			"the server would hold %d bytes of requests that are not answered yet, at most %d are taken; "+
				"nothing was done",
			total, b.mostHeld)
	}
	c.held = n
	return nil
}

// drop counts it out.
func (c *call) drop() {
	c.bridge.held.Add(-c.held)
	c.held = 0
}

// begin answers a call whose request is to be filled in.
func (b *bridge) begin(op wire.Op) *call {
	c := b.calls.Get().(*call)
	c.req.Op = op
	return c
}

// end gives an answered call back, to be used again. Its result stays valid.
func (b *bridge) end(c *call) {
	if c.of != nil && !c.aside {
		b.sessions.put(c.of)
	}
	c.of = nil
	c.req.Reset()
	c.Call = wire.Call{Ctl: c.Ctl}
	c.queued, c.aside = nil, false
	b.calls.Put(c)
}

// start validates the call's request and hands it to the handler.
func (b *bridge) start(c *call) *wire.Error {
	if err := c.req.Validate(); err != nil {
		return err
	}
	of, id := b.sessions.take()
	c.of = of
	c.name(id)
	if err := b.hold(c); err != nil {
		b.sessions.put(of) // as its answer would have
		return err
	}
	b.handler.Serve(c.list)
	return nil
}

// name fills in what the handler is told of a call, which is its session's request id.
func (c *call) name(id uint64) {
	c.ID, c.Op, c.Req, c.Session, c.To = id, c.req.Op, &c.req, &c.of.Session, c
	// A buffer of its own: what is answered may point into it.
	c.Body, c.NArgs = wire.AppendArgs(nil, &c.req)
	if c.list == nil {
		c.list = []*wire.Call{&c.Call}
	}
}

// do carries out the call's request and gives the call back. An error is one of
// gRPC's.
func (b *bridge) do(ctx context.Context, c *call) (wire.Result, error) {
	if err := ctx.Err(); err != nil {
		b.end(c)
		return wire.Result{}, status.FromContextError(err).Err()
	}
	if c.req.Flags&wire.FlagWait != 0 {
		if err := b.beginWait(); err != nil {
			b.end(c)
			return wire.Result{}, err
		}
		defer b.endWait()
	}
	if err := b.start(c); err != nil {
		b.end(c)
		return wire.Result{}, statusOf(err)
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		return wire.Result{}, b.leave(ctx, c)
	case <-b.leaving:
		if err := b.stay(ctx, c); err != nil {
			return wire.Result{}, err
		}
	}
	if ctx.Err() != nil {
		return wire.Result{}, b.tooLate(ctx, c)
	}
	b.follow(ctx, c)
	return b.result(c)
}

// stay is for a call that is under way when the node stops. What waits leaves the
// queue, as its call ends; anything else is answered by the node before it is gone.
// Without an error the call is answered.
func (b *bridge) stay(ctx context.Context, c *call) error {
	waits := c.req.Flags&wire.FlagWait != 0
	if waits {
		b.handler.Cancel(c.request())
	}
	late := time.NewTimer(stayAtMost)
	defer late.Stop()
	select {
	case <-c.done:
		if waits && c.Res.Code == wire.Cancelled {
			b.end(c)
			return errStopping
		}
		return nil
	case <-ctx.Done():
		return b.leave(ctx, c)
	case <-late.C:
		b.sessions.put(c.of)
		return status.Error(codes.DeadlineExceeded,
			"the node is shutting down and did not answer; the request may have been carried out: repeat it with "+
				"the same idempotency_key")
	}
}

// stayAtMost is how long the answer to a call may take when the node stops: as long as
// a request may at all.
const stayAtMost = 30 * time.Second

// errStopping is what a wait is ended with when the node stops.
var errStopping = status.Error(codes.Unavailable,
	"the node is shutting down, and the request was not granted; ask again, here or at another one")

// result takes the answer of an answered call and gives the call back.
func (b *bridge) result(c *call) (wire.Result, error) {
	res := c.Res
	b.end(c)
	if err := res.Err(); err != nil {
		return wire.Result{}, statusOf(err)
	}
	return res, nil
}

// leave is for a call whose caller has gone before it was answered. An acquire is taken
// back; what else was asked is carried out or not, which nobody will know.
func (b *bridge) leave(ctx context.Context, c *call) error {
	b.undo(c, false)
	return gone(ctx)
}

// tooLate is leave for a call that is answered, to nobody.
func (b *bridge) tooLate(ctx context.Context, c *call) error {
	if c.Res.Code == wire.OK && c.Res.Status == wire.StatusOK {
		b.undo(c, true)
	} else {
		b.end(c)
	}
	return gone(ctx)
}

// gone is the error of a call whose caller has gone.
func gone(ctx context.Context) error {
	if ctx.Err() == context.DeadlineExceeded {
		return status.Error(codes.DeadlineExceeded,
			"the caller's deadline passed before the answer; it may have been carried out: repeat it with the same "+
				"idempotency_key")
	}
	return status.FromContextError(ctx.Err()).Err()
}

// request is the call's session and its id there.
func (c *call) request() (*wire.Session, uint64) { return &c.of.Session, c.ID }

// Reply implements wire.Replier.
func (c *call) Reply(*wire.Call) {
	c.drop()
	if !c.aside {
		c.bridge.sessions.put(c.of)
	}
	c.done <- struct{}{}
}

// Queued implements wire.Replier.
func (c *call) Queued(_ *wire.Call, res *wire.Result) {
	if c.queued != nil {
		told := *res
		c.queued <- &told // it has room for the one
	}
}

// Flush implements wire.Replier.
func (c *call) Flush() {}

// statusOf is a refusal as gRPC tells it: the codes have the same numbers.
func statusOf(e *wire.Error) error {
	code := codes.Code(e.Code)
	if e.Code == wire.Forgotten { // a code of the native protocol alone, that says of the outcome what this does
		code = codes.DeadlineExceeded
	}
	return status.Error(code, e.Message)
}
