package compat

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"
	"unsafe"

	"google.golang.org/grpc"

	"github.com/pathlockd/pathlockd/wire"
)

// Grants whose answer crosses the end of the call.
//
// A call that its client cancels, or whose deadline is over, ends with a reset of its
// stream (RST_STREAM with CANCEL, RFC 9113). When the answer is on its way by then, gRPC's
// library has forgotten the stream, and the reset is not heard of: the client was told
// that its call failed, and what it was granted stayed locked. But it resets a stream only
// before it has seen its end. So the filter of the connection looks for resets of streams
// on which a lock was granted just now, and has it taken back.
//
// That holds for calls with one answer, AcquireStream among them. One that streams its
// answers (AcquireWatch) may be cancelled by who has read the grant and does not wait for the
// stream's end.

const (
	// answersKept is how many grants of a connection can be taken back, followFor for how
	// long, and pathBytesKept how much memory their paths take together. Over it the earliest
	// stand until their lease ends.
	answersKept   = 1024
	pathBytesKept = 256 << 10
	followFor     = 10 * time.Second
)

// answers is the calls of a connection that may be granted something, and those that were
// just now.
type answers struct {
	mu       sync.Mutex
	byStream map[uint32]*answer
	given    []*answer // granted, the earliest first
	bytes    int       // of the paths of these
	ticking  bool      // forget is to be called
}

// answer is one call's.
type answer struct {
	of     *answers
	stream uint32
	reset  bool // the client wants no answer
	undo   func()
	bytes  int
	at     time.Time
}

// begin notes a call on a stream, which granted or none ends.
func (a *answers) begin(stream uint32) *answer {
	w := &answer{of: a, stream: stream}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byStream == nil {
		a.byStream = make(map[uint32]*answer)
	}
	a.byStream[stream] = w
	return w
}

// granted is told before the answer goes, and calls undo if it comes too late.
func (w *answer) granted(bytes int, undo func()) {
	a := w.of
	a.mu.Lock()
	if w.reset {
		a.mu.Unlock()
		undo()
		return
	}
	defer a.mu.Unlock()
	w.undo, w.bytes, w.at = undo, bytes, time.Now()
	a.given, a.bytes = append(a.given, w), a.bytes+bytes
	a.shed(w.at)
	if !a.ticking && len(a.given) > 0 {
		a.ticking = true
		time.AfterFunc(followFor, a.forget)
	}
}

// shed lets go of what is over the limits at a time. Its caller has the lock.
func (a *answers) shed(now time.Time) {
	drop := 0
	for _, old := range a.given {
		if len(a.given)-drop <= answersKept && a.bytes <= pathBytesKept && now.Sub(old.at) < followFor {
			break
		}
		delete(a.byStream, old.stream)
		a.bytes -= old.bytes
		drop++
	}
	a.given = slices.Delete(a.given, 0, drop)
	if len(a.given) == 0 {
		a.given = nil
	}
}

// forget lets go of what is too old, also of a connection that is granted nothing any more.
func (a *answers) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if a.shed(now); len(a.given) == 0 {
		a.ticking = false
		return
	}
	time.AfterFunc(followFor-now.Sub(a.given[0].at), a.forget)
}

// none is told at the end of every call; of one that was not granted nothing is kept.
func (w *answer) none() {
	a := w.of
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.undo == nil {
		delete(a.byStream, w.stream)
	}
}

// cancelled is told that the client has reset a stream.
func (a *answers) cancelled(stream uint32) {
	a.mu.Lock()
	w := a.byStream[stream]
	var undo func()
	if w != nil {
		undo, w.reset = w.undo, true
		w.undo = nil
		delete(a.byStream, stream)
	}
	a.mu.Unlock()
	if undo != nil {
		undo()
	}
}

type answerKey struct{}

// followed notes a call that may be granted something, until done is called at its end.
func followed(ctx context.Context) (of context.Context, done func()) {
	stream, ok := streamOf(ctx)
	if !ok {
		return ctx, func() {}
	}
	w := connOf(ctx).answers.begin(stream)
	return context.WithValue(ctx, answerKey{}, w), w.none
}

// followedStream is a stream whose call is followed.
type followedStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s followedStream) Context() context.Context { return s.ctx }

// follow has what an acquire was granted taken back if its client cancels the call before
// it has the answer.
func (b *bridge) follow(ctx context.Context, c *call) {
	w, _ := ctx.Value(answerKey{}).(*answer)
	if w == nil || c.req.Op != wire.OpAcquire || c.req.Key != "" || c.Res.Code != wire.OK ||
		c.Res.Status != wire.StatusOK {
		return
	}
	t := takingOf(c)
	if t == nil {
		return
	}
	bytes := len(t.releases) * int(unsafe.Sizeof(t.releases[0]))
	for i := range t.releases {
		bytes += len(t.releases[i].Path)
	}
	w.granted(bytes, func() { b.undoAnswered(t) })
}

// streamOf answers the number of a call's stream. gRPC's library keeps it to itself; a test
// holds that it is found where it is looked for.
func streamOf(ctx context.Context) (uint32, bool) {
	v := reflect.ValueOf(grpc.ServerTransportStreamFromContext(ctx))
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return 0, false
	}
	id := v.Elem().FieldByName("id")
	if id.Kind() != reflect.Uint32 {
		return 0, false
	}
	return uint32(id.Uint()), true //nolint:gosec // it is one
}
