package pathlockd

import (
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/wire"
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
		for some := range slices.Chunk(b.paths, wire.MaxPaths) {
			c.retreatFrom(b, some, g.enter())
		}
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

// retreatFrom gives some paths back, by their session if that is not over.
func (c *Client) retreatFrom(b *giveBack, some []wire.ReleaseRequest, g *gate) {
	for ; b != nil; b = b.other {
		req := &wire.Request{Op: wire.OpRelease, Owner: b.owner, Releases: some, Token: b.token, Target: b.by}
		one := newCall(&released{c: c, gate: g})
		one.set(req)
		one.repeats = true
		if b.by != 0 {
			one.session, one.fixed, one.as = b.in, true, b.as
		}
		if c.submit(one, req) == nil {
			return
		}
		one.free()
	}
	g.leave()
}

// connected says that there is a server to hear of something.
func (c *Client) connected() (up bool) {
	for _, l := range c.router.all() {
		l.session.mu.Lock()
		up = up || l.session.mu.conn != nil
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

// released is the receiver of a release of retreat, which is asked again if it was not taken.
type released struct {
	c     *Client
	gate  *gate
	tries int
}

func (r *released) land(one *call, rep *reply) {
	if rep.err != nil || rep.code != wire.Unavailable && rep.code != wire.DeadlineExceeded {
		r.over(one)
		return
	}
	resent := one.resent || rep.code == wire.DeadlineExceeded
	pause := backoff(r.tries, minRetry, closeRetry)
	r.tries++
	time.AfterFunc(pause, func() { // not here: land must not block
		if resent { // it may have been carried out: then it is not to be again
			one.resent = true
		} else {
			one.forgoes()
			one.id, one.on = 0, 0
		}
		if r.c.submit(one, nil) != nil { // the client is closed
			r.over(one)
		}
	})
}

// over is called when nobody asks a release again.
func (r *released) over(one *call) {
	one.forgoes()
	one.free()
	r.gate.leave()
}
