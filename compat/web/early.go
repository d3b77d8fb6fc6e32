package web

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
)

// What came in 0-RTT.
//
// An HTTP/3 client that was here before may send requests with the first packets of a
// connection, under keys that it remembers (RFC 9001 section 4.6). Who recorded such
// packets can send them again, and the server would take them for new ones. So a
// request must not change anything if any of its bytes came in one (RFC 8470): that
// depends on the packets alone, and not on how far the handshake is when the request's
// handler happens to run. 0-RTT packets that were delayed are still read after the
// handshake, and a request that came under the new keys may be handled so soon that
// the handshake is hardly over.
//
// The QUIC library says in which packet a stream's bytes came only to its tracer, and
// only after it has handed the bytes on. So it is not enough that none of the packets
// told so far was 0-RTT: a request is taken for a late one when each of its bytes was
// told of, or the 0-RTT keys are gone.

const (
	// maxTracked bounds the requests of a connection that are followed at once; what
	// comes on top counts as early. It ends with the 0-RTT keys.
	maxTracked = 2048
	// maxSpans bounds the pieces of a request that came out of order; one in more
	// pieces counts as early.
	maxSpans = 64
	// settleWithin is how long the rest of a request that has no body may take to be
	// told of; without it the request counts as early.
	settleWithin = 2 * time.Second
)

// earlyTrace follows the packets of one connection. It is its tracer, and its own
// recorder. The connection's goroutine writes, handlers read.
type earlyTrace struct {
	taken atomic.Bool // the connection has it as its recorder
	// state says whether 0-RTT packets can be read: it goes from unused to live when
	// their keys are there, and then to over.
	state atomic.Int32

	mu struct {
		sync.Mutex
		streams map[quic.StreamID]*pieces
		lost    quic.StreamID // the last that had no room in streams; -1: none
		closed  bool          // nothing more is told
		changed chan struct{} // closed at the next change, when somebody waits for it
	}
}

const (
	unused int32 = iota
	live
	over
)

// pieces is what is known of one request's bytes.
type pieces struct {
	early bool // some came in 0-RTT
	end   int64
	upTo  int64  // all before this are there
	ahead []span // those after upTo
}

type span struct{ from, to int64 }

// whole says that all of the request's bytes were told of.
func (p *pieces) whole() bool { return p.end >= 0 && p.upTo >= p.end }

// add notes bytes that came.
func (p *pieces) add(from, to int64) {
	if from > p.upTo {
		if len(p.ahead) == maxSpans {
			p.early = true
			return
		}
		p.ahead = append(p.ahead, span{from, to})
		return
	}
	p.upTo = max(p.upTo, to)
	for again := true; again; {
		again = false
		for i, s := range p.ahead {
			if s.from <= p.upTo {
				p.upTo = max(p.upTo, s.to)
				p.ahead = append(p.ahead[:i], p.ahead[i+1:]...)
				again = true
				break
			}
		}
	}
}

func newEarlyTrace() *earlyTrace {
	t := &earlyTrace{}
	t.mu.lost = -1
	return t
}

// AddProducer implements qlogwriter.Trace: the first to ask is the connection, and
// what happens above it is not looked at.
func (t *earlyTrace) AddProducer() qlogwriter.Recorder {
	if t.taken.Swap(true) {
		return nil
	}
	return t
}

// RecordEvent implements qlogwriter.Recorder.
func (t *earlyTrace) RecordEvent(e qlogwriter.Event) {
	switch e := e.(type) {
	case qlog.PacketReceived:
		if t.state.Load() == live {
			t.packet(&e)
		}
	case qlog.KeyUpdated:
		if e.KeyType == qlog.KeyTypeClient0RTT {
			t.state.CompareAndSwap(unused, live)
		}
	case qlog.KeyDiscarded:
		if e.KeyType == qlog.KeyTypeClient0RTT {
			t.mu.Lock()
			t.state.Store(over)
			t.tell()
			t.mu.Unlock()
		}
	}
}

// packet notes the requests that a packet has bytes of.
func (t *earlyTrace) packet(e *qlog.PacketReceived) {
	early := e.Header.PacketType != qlog.PacketType1RTT
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range e.Frames {
		f, ok := e.Frames[i].Frame.(*qlog.StreamFrame)
		if !ok || f.StreamID%4 != 0 { // no request: RFC 9000 section 2.1
			continue
		}
		p := t.mu.streams[f.StreamID]
		if p == nil {
			if len(t.mu.streams) >= maxTracked {
				t.mu.lost = max(t.mu.lost, f.StreamID)
				continue
			}
			p = &pieces{end: -1}
			if t.mu.streams == nil {
				t.mu.streams = make(map[quic.StreamID]*pieces)
			}
			t.mu.streams[f.StreamID] = p
		}
		p.early = p.early || early
		p.add(f.Offset, f.Offset+f.Length)
		if f.Fin {
			p.end = f.Offset + f.Length
		}
	}
	t.tell()
}

// tell wakes who waits for a change.
func (t *earlyTrace) tell() {
	if t.mu.changed != nil {
		close(t.mu.changed)
		t.mu.changed = nil
	}
}

// Close implements qlogwriter.Recorder: the connection is over.
func (t *earlyTrace) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.closed = true
	t.tell()
	return nil
}

// forget lets go of a request that was answered.
func (t *earlyTrace) forget(id quic.StreamID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.mu.streams, id)
}

// early says whether any byte of a request came in 0-RTT. With all set it waits until
// that is sure of every byte; else it answers what is known of the first.
func (t *earlyTrace) early(ctx context.Context, id quic.StreamID, all bool) bool {
	var timeout <-chan time.Time
	for {
		t.mu.Lock()
		p := t.mu.streams[id]
		switch {
		case p != nil && p.early, p == nil && id <= t.mu.lost, t.mu.closed:
			t.mu.Unlock()
			return true
		case t.state.Load() == over, p != nil && (p.whole() || !all && p.upTo > 0):
			t.mu.Unlock()
			return false
		}
		if t.mu.changed == nil {
			t.mu.changed = make(chan struct{})
		}
		changed := t.mu.changed
		t.mu.Unlock()
		if timeout == nil {
			timer := time.NewTimer(settleWithin)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-changed:
		case <-timeout:
			return true
		case <-ctx.Done():
			return true
		}
	}
}

// earlyRequest is a request on a connection where 0-RTT was used.
type earlyRequest struct {
	trace *earlyTrace
	id    quic.StreamID
	late  bool // earlyData said that it is not early
}

type earlyKey struct{}

// earlyData says whether any byte of a request came in 0-RTT. It is asked for requests
// that must not run then, before their body is read. Of one with a body it knows only
// the bytes so far: the rest is looked at when the body was read, and if some of that
// came in 0-RTT, the body ends with errEarly instead of io.EOF.
func earlyData(r *http.Request) bool {
	e, ok := r.Context().Value(earlyKey{}).(*earlyRequest)
	if !ok {
		return false
	}
	early := e.trace.early(r.Context(), e.id, r.ContentLength == 0)
	e.late = !early
	return early
}

// withEarly answers a request that earlyData can tell of, and what to do once it was
// answered.
func withEarly(r *http.Request, t *earlyTrace) (*http.Request, func()) {
	body, ok := r.Body.(interface{ StreamID() quic.StreamID })
	if !ok || t.state.Load() == unused {
		return r, func() {}
	}
	e := &earlyRequest{trace: t, id: body.StreamID()}
	r = r.WithContext(context.WithValue(r.Context(), earlyKey{}, e))
	r.Body = &earlyBody{ReadCloser: r.Body, ctx: r.Context(), request: e}
	return r, func() { t.forget(e.id) }
}

// earlyBody is the body of a request on a connection where 0-RTT was used.
type earlyBody struct {
	io.ReadCloser
	ctx     context.Context //nolint:containedctx // the request's own
	request *earlyRequest
}

// Read implements io.Reader.
func (b *earlyBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF && b.request.late && b.request.trace.early(b.ctx, b.request.id, true) {
		return n, errEarly
	}
	return n, err
}
