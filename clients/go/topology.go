package pathlockd

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/pathlockd/pathlockd/wire"
)

// topologyWatch is those of a client who want to know of each change. The client
// itself always does (router), so the server is asked for pushes on each connection of
// the home lane.
type topologyWatch struct {
	c  *Client
	mu struct {
		sync.Mutex
		to     map[chan *wire.Topology]struct{}
		asking bool // on a later connection the session asks again
		closed bool
	}
}

// Topology says which node leads what.
func (c *Client) Topology(ctx context.Context) (*wire.Topology, error) {
	a, err := newWaiter(c).ask(ctx, &wire.Request{Op: wire.OpTopology, Watch: true}) // false would end the pushes
	if err != nil {
		return nil, err
	}
	return topologyOf(&a.result), nil
}

// WatchTopology answers a channel with the topology now and after each change,
// until ctx ends: then it is closed. Who reads slowly gets the latest only.
func (c *Client) WatchTopology(ctx context.Context) (<-chan *wire.Topology, error) {
	ch := make(chan *wire.Topology, 1)
	w := &c.watch
	w.mu.Lock()
	if w.mu.closed {
		w.mu.Unlock()
		return nil, ErrClosed
	}
	w.mu.to[ch] = struct{}{}
	w.mu.Unlock()
	w.resume() // it is answered to everybody
	context.AfterFunc(ctx, func() { w.leave(ch) })
	return ch, nil
}

// resume asks for the topology and for pushes, on a new connection say.
func (w *topologyWatch) resume() {
	w.mu.Lock()
	asking := w.mu.asking
	w.mu.asking = true
	w.mu.Unlock()
	if asking {
		return
	}
	c := newCall(w)
	c.set(&wire.Request{Op: wire.OpTopology, Watch: true})
	c.urgent = true
	if w.c.home.session.submit(c) != nil {
		c.free()
	}
}

// land implements receiver.
func (w *topologyWatch) land(c *call, r *reply) {
	err := r.decode(c, &r.scratch)
	c.free()
	w.mu.Lock()
	w.mu.asking = false
	w.mu.Unlock()
	if err == nil {
		t := topologyOf(&r.scratch)
		w.c.router.learn(t, r.tie.number)
		w.tell(t)
	}
}

// tell hands a topology to everybody, in place of one that was not read yet.
func (w *topologyWatch) tell(t *wire.Topology) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch := range w.mu.to {
		select {
		case <-ch:
		default:
		}
		ch <- t
	}
}

func (w *topologyWatch) leave(ch chan *wire.Topology) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.mu.to[ch]; ok {
		delete(w.mu.to, ch)
		close(ch)
	}
}

func (w *topologyWatch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.closed = true
	for ch := range w.mu.to {
		delete(w.mu.to, ch)
		close(ch)
	}
}

// topologyOf copies the topology of a result.
func topologyOf(res *wire.Result) *wire.Topology {
	if res.List == nil || res.List.Topology == nil {
		return new(wire.Topology)
	}
	return cloneTopology(res.List.Topology)
}

// cloneTopology copies a topology out of the reader's buffer.
func cloneTopology(t *wire.Topology) *wire.Topology {
	own := *t
	own.Self = strings.Clone(t.Self)
	own.Nodes = slices.Clone(t.Nodes)
	for i, n := range own.Nodes {
		own.Nodes[i] = wire.NodeAddr{NodeID: strings.Clone(n.NodeID), Native: strings.Clone(n.Native)}
	}
	own.Leaders = slices.Clone(t.Leaders)
	for i, l := range own.Leaders {
		own.Leaders[i] = strings.Clone(l)
	}
	own.LogOf = slices.Clone(t.LogOf)
	own.Roots = slices.Clone(t.Roots)
	for i, root := range own.Roots {
		own.Roots[i] = strings.Clone(root)
	}
	return &own
}
