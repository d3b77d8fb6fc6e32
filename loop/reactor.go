package loop

import (
	"context"
	"sync"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/pathlockd/pathlockd/wire"
)

// reactor is one event loop's share of the server. What is not under the lock
// belongs to the loop.
type reactor struct {
	srv  *Server
	loop gnet.EventLoop

	mu     sync.Mutex
	inbox  []item
	queued bool // a run is on its way

	work     []item // the inbox being emptied
	sessions map[*session]struct{}
	dirty    []*session // with output to be written
	buffers  [][]byte
	calls    []*wire.Call // to be used again
	requests []*wire.Request
	lists    []int        // bytes of the lists of each, as they were at the last trim
	listed   int          // all of them
	used     int          // of requests, since then
	batch    []*wire.Call // decoded, to be served
	reading  *session     // whose input is being taken; its close is receive's business
}

// item is a message for the loop: an answered call, or bytes for a session, or
// something to do.
type item struct {
	call *wire.Call
	s    *session
	buf  []byte
	push bool // buf came by push
	do   func()
}

// batchCalls is how many requests of one connection are handed over at once.
const batchCalls = 256

// Bounds on what is kept to be used again, of each loop.
const (
	sparesKept  = 4096     // calls, and items of the inbox
	buffersKept = 64       // output buffers
	bufferKept  = 64 << 10 // bytes of one
	listsKept   = 1 << 20  // bytes of the lists of all requests
)

func newReactor(srv *Server, loop gnet.EventLoop) *reactor {
	return &reactor{srv: srv, loop: loop, sessions: make(map[*session]struct{})}
}

// Reply implements wire.Replier, for calls whose session is on this loop.
func (r *reactor) Reply(c *wire.Call) { r.put(item{call: c}) }

// Queued implements wire.Replier.
func (r *reactor) Queued(c *wire.Call, res *wire.Result) {
	s := c.Ctx.(*asked).s
	r.put(item{s: s, buf: wire.AppendQueued(nil, &wire.Queued{ID: c.ID, Result: *res})})
}

// Flush implements wire.Replier.
func (r *reactor) Flush() {
	r.mu.Lock()
	wake := len(r.inbox) > 0 && !r.queued
	r.queued = r.queued || wake
	r.mu.Unlock()
	if wake {
		r.wake()
	}
}

// wake makes the loop run the inbox.
func (r *reactor) wake() {
	if err := r.loop.Execute(context.Background(), r); err != nil {
		r.srv.opt.Log.Debug("an event loop is gone, its answers with it", "error", err)
	}
}

func (r *reactor) put(i item) {
	r.mu.Lock()
	r.inbox = append(r.inbox, i)
	r.mu.Unlock()
}

// post is put and Flush.
func (r *reactor) post(i item) {
	r.put(i)
	r.Flush()
}

// Run implements gnet.Runnable: it empties the inbox, on the loop.
func (r *reactor) Run(context.Context) error {
	r.mu.Lock()
	r.work, r.inbox = r.inbox, r.work[:0]
	r.queued = false
	r.mu.Unlock()
	for i := range r.work {
		switch it := &r.work[i]; {
		case it.call != nil:
			it.call.Ctx.(*asked).s.answered(it.call)
		case it.do != nil:
			it.do()
		case it.push:
			it.s.deliver(it.buf)
		default:
			it.s.write(it.buf)
		}
		r.work[i] = item{}
	}
	if cap(r.work) > sparesKept {
		r.work = nil
	}
	r.flush()
	return nil
}

// flush writes what sessions have to say.
func (r *reactor) flush() {
	for i, s := range r.dirty {
		s.flush()
		r.dirty[i] = nil
	}
	r.dirty = r.dirty[:0]
}

// buffer answers an empty buffer; keep takes one back.
func (r *reactor) buffer() []byte {
	if n := len(r.buffers); n > 0 {
		b := r.buffers[n-1]
		r.buffers = r.buffers[:n-1]
		return b
	}
	return make([]byte, 0, 4096)
}

func (r *reactor) keep(b []byte) {
	if len(r.buffers) < buffersKept && cap(b) <= bufferKept {
		r.buffers = append(r.buffers, b[:0])
	}
}

// call answers a blank Call; free takes one back.
func (r *reactor) call() *wire.Call {
	if n := len(r.calls); n > 0 {
		c := r.calls[n-1]
		r.calls = r.calls[:n-1]
		return c
	}
	return &wire.Call{Ctx: new(asked)}
}

func (r *reactor) free(c *wire.Call) {
	if len(r.calls) < sparesKept {
		a := c.Ctx.(*asked)
		*a = asked{}
		*c = wire.Call{Ctl: c.Ctl, Ctx: a}
		r.calls = append(r.calls, c)
	}
}

// request answers the i-th Request of a batch.
func (r *reactor) request(i int) *wire.Request {
	for len(r.requests) <= i {
		r.requests, r.lists = append(r.requests, new(wire.Request)), append(r.lists, 0)
	}
	r.used = max(r.used, i+1)
	return r.requests[i]
}

// trim keeps the requests of a burst to be used again, or all but their lists if those
// take much: one client's long lists, one after the other in every place of a batch, would
// stay for good.
func (r *reactor) trim() {
	for i, req := range r.requests[:r.used] {
		n := req.ListBytes()
		r.listed += n - r.lists[i]
		r.lists[i] = n
	}
	if r.used = 0; r.listed > listsKept {
		r.forget()
	}
}

// forget lets go of the requests.
func (r *reactor) forget() {
	clear(r.requests)
	r.requests, r.lists, r.listed, r.used = r.requests[:0], r.lists[:0], 0, 0
}

// serve hands the batch over.
func (r *reactor) serve() {
	if len(r.batch) == 0 {
		return
	}
	r.srv.handler.Serve(r.batch)
	clear(r.batch)
	r.trim()
	r.batch = r.batch[:0]
}

// sweep closes connections that keep the server waiting.
func (r *reactor) sweep(now time.Time) {
	for s := range r.sessions {
		s.sweep(now)
	}
	r.flush()
}
