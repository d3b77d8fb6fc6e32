package cluster

import (
	"context"
	"fmt"
	"sync"

	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/wire"
)

// direct is a Conn that hands calls to a node of this process.
type direct struct {
	node    *groups.Node
	session *wire.Session
	gone    <-chan struct{} // closed when the node has lost its power
	mu      sync.Mutex
	call    *wire.Call // under way
	done    chan wire.Result
	placed  func()
}

func newDirect(n *groups.Node, gone <-chan struct{}, s *Session) *direct {
	s.epoch++
	return &direct{node: n, gone: gone, session: &wire.Session{ID: s.id, Epoch: s.epoch, Window: 256}}
}

// Close tells the node that the connection is gone.
func (d *direct) Close() {
	select {
	case <-d.gone:
	default:
		d.node.Closed(d.session, false, false)
	}
}

func (d *direct) Ask(ctx context.Context, id uint64, req *wire.Request, placed func()) (*wire.Result, error) {
	if err := req.Validate(); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	call := &wire.Call{ID: id, Op: req.Op, Req: req, Session: d.session, To: d}
	call.Body, call.NArgs = wire.AppendArgs(nil, req)
	done := make(chan wire.Result, 1)
	d.mu.Lock()
	d.call, d.done, d.placed = call, done, placed
	d.mu.Unlock()
	d.node.Serve([]*wire.Call{call})
	select {
	case res := <-done:
		return &res, nil
	case <-d.gone:
		return nil, ErrDown
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Reply implements wire.Replier.
func (d *direct) Reply(call *wire.Call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.gone:
		return // what a dying node says, nobody hears
	default:
	}
	if d.call == call {
		d.call = nil
		d.done <- call.Res
	}
}

// Queued implements wire.Replier.
func (d *direct) Queued(call *wire.Call, _ *wire.Result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.call == call && d.placed != nil {
		d.placed()
	}
}

// Flush implements wire.Replier.
func (d *direct) Flush() {}
