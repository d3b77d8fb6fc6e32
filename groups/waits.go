package groups

import (
	"sync"

	"github.com/pathlockd/pathlockd/engine"
)

// openWaits is the open calls of this node: acquires that wait for their grant.
type openWaits struct {
	mu    sync.Mutex
	calls map[engine.Caller]*part
}

// add notes that p's call is open. It takes the place of an earlier call of the
// same request, whose connection is gone, and answers that.
func (w *openWaits) add(p *part) (was *part) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls == nil {
		w.calls = make(map[engine.Caller]*part)
	}
	c := p.caller()
	was = w.calls[c]
	w.calls[c] = p
	return was
}

// take removes the open call of a request, if it is still that one.
func (w *openWaits) take(c engine.Caller, p *part) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls[c] != p {
		return false
	}
	delete(w.calls, c)
	return true
}

// get answers the open call of a request, nil when there is none.
func (w *openWaits) get(c engine.Caller) *part {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[c]
}

// of answers the open calls of a session.
func (w *openWaits) of(s engine.Session) (parts []*part) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c, p := range w.calls {
		if c.Session == s {
			parts = append(parts, p)
		}
	}
	return parts
}

// those answers the open calls that are.
func (w *openWaits) those(are func(*part) bool) (parts []*part) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.calls {
		if are(p) {
			parts = append(parts, p)
		}
	}
	return parts
}

// changeCalls is the calls of policy changes that are under way, by their number.
type changeCalls struct {
	mu    sync.Mutex
	calls map[uint64][]*part
}

func (c *changeCalls) add(id uint64, p *part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = make(map[uint64][]*part)
	}
	c.calls[id] = append(c.calls[id], p)
}

func (c *changeCalls) take(id uint64) []*part {
	c.mu.Lock()
	defer c.mu.Unlock()
	parts := c.calls[id]
	delete(c.calls, id)
	return parts
}

// all takes every call out.
func (c *changeCalls) all() (parts []*part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ps := range c.calls {
		parts = append(parts, ps...)
	}
	clear(c.calls)
	return parts
}
