package cluster

import (
	"context"
	"fmt"
	"sync"

	"github.com/pathlockd/pathlockd/bench/session"
	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/wire"
)

// direct is a Conn that hands calls to a node of this process.
type direct struct {
	node    *groups.Node
	session *wire.Session
	gone    <-chan struct{} // closed when the node has lost its power
	frost   *frost
	mu      sync.Mutex
	call    *wire.Call // under way
	done    chan wire.Result
	placed  func(token int64)
	subs    subscriptions
}

func newDirect(n *groups.Node, gone <-chan struct{}, f *frost, s *session.Session) *direct {
	s.Epoch++
	return &direct{node: n, gone: gone, frost: f, session: &wire.Session{ID: s.ID, Epoch: s.Epoch, Window: 256}}
}

// Close tells the node that the connection is gone.
func (d *direct) Close() {
	d.frost.pass(func() {
		select {
		case <-d.gone:
		default:
			d.unsubscribe()
			d.node.Closed(d.session, false, false)
		}
	})
}

func (d *direct) Ask(ctx context.Context, id uint64, req *wire.Request,
	placed func(token int64)) (*wire.Result, error) {
	if err := req.Validate(); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	d.tell()
	done := make(chan wire.Result, 1)
	if control(req.Op) {
		d.frost.pass(func() { d.control(req, done) })
		return d.wait(ctx, done)
	}
	call := &wire.Call{ID: id, Op: req.Op, Req: req, Session: d.session, To: d}
	call.Body, call.NArgs = wire.AppendArgs(nil, req)
	d.mu.Lock()
	d.call, d.done, d.placed = call, done, placed
	d.mu.Unlock()
	d.frost.pass(func() { d.node.Serve([]*wire.Call{call}) })
	return d.wait(ctx, done)
}

// wait waits for an answer.
func (d *direct) wait(ctx context.Context, done <-chan wire.Result) (*wire.Result, error) {
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
func (d *direct) Reply(call *wire.Call) { d.frost.pass(func() { d.answer(call) }) }

func (d *direct) answer(call *wire.Call) {
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
func (d *direct) Queued(call *wire.Call, res *wire.Result) {
	token := res.Token
	d.frost.pass(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.call == call && d.placed != nil {
			d.placed(token)
		}
	})
}

// Flush implements wire.Replier.
func (d *direct) Flush() {}
