package pathlockd

import (
	"time"
)

const (
	// closeWithin is how long Close waits for the servers to hear what is given back.
	closeWithin = time.Second
	// closeLooks is how often it looks whether they have.
	closeLooks = time.Millisecond
	// closeElsewhere is how long a server may take nothing then before another address is
	// tried: one that is about to stop need not say so in time.
	closeElsewhere = closeWithin / 4
	// closeRetry is the longest pause before a release is asked again that was not taken.
	closeRetry = closeWithin / 10
)

// retreat gives back what the client holds and waits for. Nobody believes in any of it
// any more when the first release is sent.
func (c *Client) retreat() {
	close(c.leaving)         // those who wait take their requests back
	rels := c.keeper.leave() // and nothing is kept from here on
	g := c.gates.close("")
	for _, b := range rels {
		c.give(b, g.enter())
	}
	g.leave()
	late := time.NewTimer(closeWithin)
	defer late.Stop()
	look := time.NewTicker(closeLooks)
	defer look.Stop()
	// A server that goes meanwhile may have been about to: there may be another one.
	for up := c.connected(); up && c.retreating(); {
		select {
		case <-look.C:
		case <-late.C:
			return
		}
	}
}

// connected says that there is a server to hear of something, or that one has sent the client elsewhere.
func (c *Client) connected() (up bool) {
	for _, l := range c.router.all() {
		l.session.mu.Lock()
		up = up || l.session.mu.conn != nil || l.moved.Load()
		l.session.mu.Unlock()
	}
	return up
}

// retreating says that a server has to hear of something yet.
func (c *Client) retreating() bool {
	open := c.gates.shut.Load() > 0 || c.taking.Load() > 0
	for _, l := range c.router.all() {
		l.session.mu.Lock()
		for _, one := range l.session.mu.sent.sorted() {
			open = open || one.waits && !one.async
		}
		l.session.mu.Unlock()
	}
	return open
}
