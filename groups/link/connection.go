package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"
)

// GetConnection connects to a node, for messages. It is called by dragonboat, whose
// context lives as long as it wants connections: this one ends with it.
func (t *transport) GetConnection(ctx context.Context, target string) (raftio.IConnection, error) {
	return t.connect(ctx, target, Messages)
}

// GetSnapshotConnection connects to a node, for snapshots. It is called by dragonboat,
// as GetConnection is.
func (t *transport) GetSnapshotConnection(ctx context.Context, target string) (raftio.ISnapshotConnection, error) {
	return t.connect(ctx, target, Snapshots)
}

func (t *transport) connect(ctx context.Context, target string, kind Kind) (*connection, error) {
	v, err := t.dial(ctx, target, "", kind)
	if err != nil {
		return nil, fmt.Errorf("raft link: %w", err)
	}
	c := &connection{
		t: t, raw: v.raw, kind: kind, peer: v.peer, done: make(chan struct{}),
		w: frameWriter{c: v.secure, stall: t.c.timing.stall},
	}
	// dragonboat waits for its senders before it closes the transport, and a sender may
	// hang for as long as stall in a peer that reads nothing.
	c.ctx, c.cancel = context.WithCancel(t.ctx)
	c.mu.Lock() // it may be called before it is known how to call it off
	c.mu.leave = context.AfterFunc(ctx, func() { c.end(net.ErrClosed) })
	c.mu.Unlock()
	if !t.keep(v.raw, c.listen) {
		c.end(errClosed)
		return nil, errClosed
	}
	return c, nil
}

// connection is one that this node dialed. Sends come from one goroutine at a time,
// Close from any.
type connection struct {
	t      *transport
	raw    net.Conn
	w      frameWriter
	kind   Kind
	peer   Peer
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	done   chan struct{} // closed when listen ended
	mu     struct {
		sync.Mutex
		err   error       // why the connection is over
		leave func() bool // forgets the context that the connection was asked for with
	}
}

// listen hears that the peer lives, and answers; and that the connection is over.
func (c *connection) listen() {
	defer close(c.done)
	r := &frameReader{c: c.w.c, limit: 0, silence: c.t.c.timing.silence, stall: c.t.c.timing.stall}
	for {
		frame, _, err := r.next(c.ctx)
		switch {
		case err != nil:
		case frame == frameAlive:
			err = c.w.signal(frameAlive)
		default:
			err = errors.New("the peer ended the connection")
		}
		if err != nil {
			c.end(err)
			return
		}
	}
}

// end closes the connection. The first reason stays.
func (c *connection) end(err error) {
	c.mu.Lock()
	if c.mu.err == nil {
		c.mu.err = err
	}
	leave := c.mu.leave
	c.mu.Unlock()
	leave()
	c.cancel()
	c.t.shut(c.raw)
}

// broken answers why the connection is over, nil if it is not.
func (c *connection) broken() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.err == nil {
		return nil
	}
	return fmt.Errorf("raft link to node %s: %w", c.peer.Node, c.mu.err)
}

// Close closes the connection. One for snapshots first waits, for stall at most, until
// the peer has taken what was sent.
func (c *connection) Close() {
	if c.kind == Snapshots && c.broken() == nil && c.w.signal(frameEnd) == nil {
		late := time.NewTimer(c.t.c.timing.stall)
		defer late.Stop()
		select {
		case <-c.done:
		case <-late.C:
		case <-c.ctx.Done():
		}
	}
	c.end(net.ErrClosed)
}

// SendMessageBatch sends a batch of messages.
func (c *connection) SendMessageBatch(b raftpb.MessageBatch) error {
	return c.send(frameBatch, &b, b.SizeUpperLimit())
}

// SendChunk sends a chunk of a snapshot.
func (c *connection) SendChunk(s raftpb.Chunk) error { return c.send(frameChunk, &s, s.Size()) }

// send sends what is at most size bytes long.
func (c *connection) send(frame byte, m marshaler, size int) error {
	if err := c.broken(); err != nil {
		return err
	}
	if limit := limitOf(c.kind); size > limit {
		return fmt.Errorf("raft link to node %s: %s of %d bytes, at most %d are allowed: %w", c.peer.Node, c.kind, size,
			limit, errTooLong)
	}
	if size > keptBytes {
		if err := c.t.out.take(c.ctx, size); err != nil {
			return err
		}
		defer c.t.out.give(size)
	}
	var err error
	if c.t.c.Faults != nil {
		err = c.sendThrough(frame, m, size)
	} else {
		err = c.w.send(frame, m, size)
	}
	if err != nil {
		c.end(err)
		return c.broken()
	}
	return nil
}

// sendThrough sends what the laboratory lets pass.
func (c *connection) sendThrough(frame byte, m marshaler, size int) error {
	fate := c.t.c.Faults.Outgoing(Passage{From: c.t.c.Node, To: c.peer.Node, Kind: c.kind, Bytes: size})
	switch {
	case fate.Cut, fate.Drop && c.kind == Snapshots:
		return errCut
	case fate.Drop:
		return nil
	case c.kind == Snapshots:
		if fate.Delay > 0 {
			c.wait(fate.Delay)
		}
		return c.w.send(frame, m, size)
	case fate.Delay > 0:
		c.postpone(frame, m, size, fate)
		return nil
	}
	for range 1 + min(fate.Copies, maxCopies) {
		if err := c.w.send(frame, m, size); err != nil {
			return err
		}
	}
	return nil
}

func (c *connection) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// postpone sends later. dragonboat reuses what a batch is made of, so it is encoded
// now.
func (c *connection) postpone(frame byte, m marshaler, size int, fate Fate) {
	if !c.t.delayed.try(1) {
		return
	}
	if !c.t.delayedBytes.try(size) {
		c.t.delayed.give(1)
		return
	}
	back := func() { c.t.delayed.give(1); c.t.delayedBytes.give(size) }
	late := make(encoded, size)
	n, err := m.MarshalTo(late)
	late = late[:n]
	if err != nil || !c.t.spawn(func() {
		defer back()
		if !c.wait(fate.Delay) {
			return
		}
		for range 1 + min(fate.Copies, maxCopies) {
			if err := c.w.send(frame, late, len(late)); err != nil {
				c.end(err)
				return
			}
		}
	}) {
		back()
	}
}

// encoded is what was marshalled before.
type encoded []byte

// MarshalTo copies it.
func (e encoded) MarshalTo(b []byte) (int, error) { return copy(b, e), nil }
