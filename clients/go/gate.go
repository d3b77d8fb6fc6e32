package pathlockd

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// gates keep an owner's next acquire back while something that takes back one of before
// is still under way: a release that goes on in the background, or a request whose caller
// has gone and which may yet be granted. What came later than the acquire would give back
// what that was told to hold. Only owners that a program names itself ask twice, so nearly
// always no gate is shut.
type gates struct {
	shut atomic.Int32 // how many are
	mu   struct {
		sync.Mutex
		of map[string]*gate
	}
}

// gate is that of one owner. A nil one is open.
type gate struct {
	all   *gates
	owner string
	inner int           // what is under way, under the lock of all
	open  chan struct{} // closed when nothing is any more
}

// close shuts an owner's gate until leave is called.
func (all *gates) close(owner string) *gate {
	all.mu.Lock()
	defer all.mu.Unlock()
	g := all.mu.of[owner]
	if g == nil {
		g = &gate{all: all, owner: owner, open: make(chan struct{})}
		if all.mu.of == nil {
			all.mu.of = make(map[string]*gate)
		}
		all.mu.of[owner] = g
		all.shut.Add(1)
	}
	g.inner++
	return g
}

// enter keeps the gate shut for one more, until that calls leave as well.
func (g *gate) enter() *gate {
	if g != nil {
		g.all.mu.Lock()
		g.inner++
		g.all.mu.Unlock()
	}
	return g
}

// leave opens the gate again, once everybody has left.
func (g *gate) leave() {
	if g == nil {
		return
	}
	g.all.mu.Lock()
	defer g.all.mu.Unlock()
	if g.inner--; g.inner == 0 {
		delete(g.all.mu.of, g.owner)
		g.all.shut.Add(-1)
		close(g.open)
	}
}

// pass waits until an owner may acquire.
func (c *Client) pass(ctx context.Context, owner string) error {
	for c.gates.shut.Load() > 0 && planted != plantLateRelease {
		c.gates.mu.Lock()
		g := c.gates.mu.of[owner]
		c.gates.mu.Unlock()
		if g == nil {
			return nil
		}
		select {
		case <-g.open:
		case <-ctx.Done():
			return fmt.Errorf("acquire: not sent, as what its owner gave back is under way still: %w",
				context.Cause(ctx))
		case <-c.ctx.Done():
			return ErrClosed
		}
	}
	return nil
}
