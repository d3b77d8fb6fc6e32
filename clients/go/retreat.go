package pathlockd

import "time"

const (
	// closeWithin is how long Close waits for the servers to hear what is given back.
	closeWithin = time.Second
	// closeLooks is how often it looks whether they have.
	closeLooks = time.Millisecond
)

// retreat gives back what the client holds and waits for. Nobody believes in any of it
// any more when the first release is sent.
func (c *Client) retreat() {
	close(c.leaving)         // those who wait take their requests back
	rels := c.keeper.leave() // and nothing is kept from here on
	g := c.gates.close("")
	for _, req := range rels {
		one := newCall(released{g.enter()})
		one.set(req)
		if c.submit(one, req) != nil {
			one.free()
			g.leave()
		}
	}
	g.leave()
	late := time.NewTimer(closeWithin)
	defer late.Stop()
	look := time.NewTicker(closeLooks)
	defer look.Stop()
	for c.retreating() {
		select {
		case <-look.C:
		case <-late.C:
			return
		}
	}
}

// retreating says that a server has to hear of something yet, and may.
func (c *Client) retreating() bool {
	open, up := c.gates.shut.Load() > 0, false
	for _, l := range c.router.all() {
		l.session.mu.Lock()
		for _, one := range l.session.mu.sent.sorted() {
			open = open || one.waits && !one.async
		}
		up = up || l.session.mu.conn != nil
		l.session.mu.Unlock()
	}
	return open && up
}

// released is the receiver of a release of retreat.
type released struct{ gate *gate }

func (r released) land(c *call, _ *reply) {
	c.free()
	r.gate.leave()
}
