package web

import (
	"container/list"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/quic-go/quic-go"
)

// handshakes bounds the QUIC connections of a listener, and among them those whose
// handshake is not over, which take memory and time of ours before the client has
// shown that it is where it says.
//
// A few are taken as they come. When a quarter of the limit is under way, new clients
// must first send back a token, for which nothing is kept here: who sends from an
// address that is not its own gets no further. At the limit, the oldest makes room for
// the new one, as over TCP (see compat.Conns): a client that goes on with its handshake is
// through before it is the oldest. What the library has not told of yet cannot be
// closed; if there is nothing else, the new one is refused.
type handshakes struct {
	most     int64 // connections
	halfOpen int

	conns atomic.Int64
	wg    sync.WaitGroup // who closes connections
	mu    struct {
		sync.Mutex
		pending list.List // of *handshake, in the order in which they came
	}
}

// handshake is one that is under way.
type handshake struct {
	elem *list.Element // nil: it is over
	conn *quic.Conn    // nil: the library has not told of it
}

type handshakeKey struct{}

func newHandshakes(most, halfOpen int) *handshakes {
	return &handshakes{most: int64(most), halfOpen: halfOpen}
}

// errFull refuses a connection.
var errFull = errors.New("too many connections")

// verify says whether a client must show that it is at its address.
func (h *handshakes) verify(net.Addr) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.pending.Len() >= h.halfOpen/4
}

// begin is called for each new connection. Its context ends with the connection.
func (h *handshakes) begin(ctx context.Context, _ *quic.ClientInfo) (context.Context, error) {
	if h.conns.Add(1) > h.most {
		h.conns.Add(-1)
		return nil, errFull
	}
	x := &handshake{}
	h.mu.Lock()
	ok := h.mu.pending.Len() < h.halfOpen || h.cut()
	if ok {
		x.elem = h.mu.pending.PushBack(x)
	}
	h.mu.Unlock()
	if !ok {
		h.conns.Add(-1)
		return nil, errFull
	}
	context.AfterFunc(ctx, func() {
		h.conns.Add(-1)
		h.remove(x)
	})
	return context.WithValue(ctx, handshakeKey{}, x), nil
}

// cut makes room: it closes the oldest that can be closed. The caller holds mu.
func (h *handshakes) cut() bool {
	for e := h.mu.pending.Front(); e != nil; e = e.Next() {
		x := e.Value.(*handshake) //nolint:forcetypeassert // see pending
		if x.conn == nil {
			continue
		}
		h.mu.pending.Remove(e)
		x.elem = nil
		conn := x.conn
		h.wg.Go(func() { _ = conn.CloseWithError(0, "") }) // it waits for the connection's goroutine
		return true
	}
	return false
}

// accepted notes that a connection can be closed.
func (h *handshakes) accepted(conn *quic.Conn) {
	if x, ok := conn.Context().Value(handshakeKey{}).(*handshake); ok {
		h.mu.Lock()
		x.conn = conn
		h.mu.Unlock()
	}
}

// done notes that a connection's handshake is over.
func (h *handshakes) done(ctx context.Context) {
	if x, ok := ctx.Value(handshakeKey{}).(*handshake); ok {
		h.remove(x)
	}
}

func (h *handshakes) remove(x *handshake) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x.conn = nil
	if x.elem != nil {
		h.mu.pending.Remove(x.elem)
		x.elem = nil
	}
}
