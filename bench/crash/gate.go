package crash

import (
	"context"
	"sync"
)

// gate is closed while there is no server that actors may use.
type gate struct {
	mu   sync.Mutex
	addr string
	gen  int
	open chan struct{} // closed while the gate is open
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

// up opens the gate to another server.
func (g *gate) up(addr string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.addr = addr
	g.gen++
	close(g.open)
}

// down closes it.
func (g *gate) down() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

// wait waits for an open gate, until ctx ends.
func (g *gate) wait(ctx context.Context) (addr string, gen int, ok bool) {
	for ctx.Err() == nil {
		g.mu.Lock()
		addr, gen, open := g.addr, g.gen, g.open
		g.mu.Unlock()
		select {
		case <-open:
			return addr, gen, true
		case <-ctx.Done():
		}
	}
	return "", 0, false
}
