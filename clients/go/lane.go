package pathlockd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// lane is one session of the client and the connection that it is on at the time.
//
// There always is the home lane, to whichever node took it; subscriptions, bound
// owners, and everything that is about no single namespace go by it. A cluster's
// other nodes get a lane each when there is something for them to lead (router). A
// lane that loses its node goes on at another one, with its session and so with
// everything unanswered, but takes nothing new there (stray).
type lane struct {
	c       *Client
	node    string // that it was opened for; "" of the home lane
	session session
	tie     *tie // of its last connection; under the keeper's lock, as
	greeted *tie // of the last on which hello was said, or is about to be

	heard atomic.Int64 // when the last bytes of the last connection came (Client.now)
	tries atomic.Int32 // rounds of connecting since a server last answered
	move  atomic.Bool  // the next connection should go elsewhere
	moved atomic.Bool  // its last server sent it elsewhere, and it has no connection yet

	upSince atomic.Int64 // when it got its last connection (Client.now)

	// Of the keeper:
	nextStale time.Duration // when to look for those that waited long
	nextLook  time.Duration // when to look for what is unanswered (unanswered.go)
	givenUp   uint8         // how often a connection was given up for that, lately
	clean     int           // looks since the last at which something was unanswered
	patience  time.Duration // how long its node may take to answer what only its session may ask; 0: slowWay

	ctx  context.Context // ends with the lane
	end  context.CancelFunc
	done chan struct{} // closed when run has ended

	link struct { // for people, errors and the router
		sync.Mutex
		server ServerInfo
		up     bool
		err    error // why there is no connection
	}

	// Under the router's lock.
	stray   bool          // its connection leads to another node than it was opened for
	idle    time.Duration // since when nothing goes by it, 0: something does
	changes uint64        // of its session then
}

func (c *Client) newLane(node string) *lane {
	l := &lane{c: c, node: node, done: make(chan struct{})}
	l.ctx, l.end = context.WithCancel(c.ctx)
	l.session.c, l.session.l = c, l
	l.session.begin()
	l.session.mu.sent.grow(1)
	l.session.mu.normal.renewals = make(map[string]int)
	l.session.mu.again.renewals = make(map[string]int)
	return l
}

// run reads one connection after the other, beginning with cn, until the lane is
// closed.
func (l *lane) run(cn *conn) {
	defer close(l.done)
	for {
		cn.giveUp(cn.read())
		l.detach(cn)
		if cn = l.reconnect(cn.addr); cn == nil {
			return
		}
		l.attach(cn)
	}
}

// attach makes cn the connection that everything goes by. What the keeper and the
// subscriptions have to say goes ahead of new requests.
func (l *lane) attach(cn *conn) {
	c := l.c
	l.link.Lock()
	l.link.server, l.link.err, l.link.up = cn.server, nil, true
	l.link.Unlock()
	l.moved.Store(false)
	l.upSince.Store(int64(c.now()))
	w := windowsOf(&cn.limits, c.opt.window)
	if l == c.home {
		c.frame.Store(int64(w.frame))
		c.settles.Store(cn.limits.Answers > 0)
		c.keeper.watch(w.subs / 2)
	}
	c.keeper.attached(cn.tie)
	if l == c.home {
		c.binds.resume(c, cn.tie.number)
		c.subs.resume()
		c.watch.resume()
	}
	if err := l.session.resume(cn, w); err != nil {
		cn.nc.Close()
	}
	c.keeper.nudge()
	c.router.attached(l)
	if l == c.home {
		c.router.bind() // of some it is known now that they are not
	}
}

// detach takes note that cn is gone.
func (l *lane) detach(cn *conn) {
	c := l.c
	heard := time.Duration(cn.heard.Load())
	l.heard.Store(int64(heard))
	l.session.mu.Lock()
	err := cn.failed
	l.session.mu.Unlock()
	l.link.Lock()
	l.link.err, l.link.up = fmt.Errorf("pathlockd: connection to %s: %w", cn.addr, err), false
	l.link.Unlock()
	unsure, dropped := l.session.lost(cn, heard)
	if l == c.home {
		c.subs.detached()
	}
	var bye *goodbye
	if errors.As(err, &bye) {
		l.move.Store(true)
		l.moved.Store(true)
	}
	// A server on its way out ends no lease with its connections, and says so.
	c.keeper.detached(cn.tie, bye != nil && bye.err.Code == wire.Unavailable, unsure)
	for _, w := range dropped {
		w.settled()
	}
}

// reconnect makes the next connection, beginning with the address of the last,
// and answers nil when the lane is closed.
func (l *lane) reconnect(last address) *conn {
	c := l.c
	moved := l.move.Swap(false)
	for round := 0; ; round++ {
		if n := l.tries.Add(1) - 1; n > 0 && !l.pause(backoff(int(n)-1, minBackoff, maxBackoff)) {
			return nil
		}
		all := c.candidates(last, moved)
		cn, err := c.race(l.ctx, l, all, c.patience(round, len(all)))
		if err == nil {
			return cn
		}
		if l.ctx.Err() != nil {
			return nil
		}
		l.link.Lock()
		l.link.err = err
		l.link.Unlock()
	}
}

// candidates lists where a connection may be made anew: where the last one led to,
// unless it is better made elsewhere, then the addresses after it.
func (c *Client) candidates(last address, elsewhere bool) []address {
	all := c.router.addresses()
	at := slices.Index(all, last)
	if at < 0 {
		all, at = append([]address{last}, all...), 0
	}
	if elsewhere {
		at++
	}
	at %= len(all)
	return append(slices.Clone(all[at:]), all[:at]...)
}

// quickly is how long an attempt to connect may take at first while there are other
// addresses to try. It doubles with each round.
const quickly = time.Second

// patience is how long an attempt to connect may take.
func (c *Client) patience(round, addresses int) time.Duration {
	if addresses == 1 {
		return c.opt.dialTimeout
	}
	return min(c.opt.dialTimeout, quickly<<min(round, 16))
}

// elsewhereAfter is how long a server may take no request before the client tries
// another address. One that is about to stop says goodbye, and is left at once.
const elsewhereAfter = time.Second

// errRefusing says why a connection was given up whose server took nothing.
var errRefusing = errors.New("the server takes no requests")

// refused takes note, on the reader's goroutine, that a request was not taken.
func (l *lane) refused(cn *conn) {
	now := l.c.now()
	switch {
	case cn.refusing == 0:
		cn.refusing = now
	case now-cn.refusing >= l.c.refusable() && len(l.c.router.addresses()) > 1:
		l.move.Store(true)
		cn.giveUp(errRefusing)
	}
}

// errSlow says why a connection was given up whose server does not answer what another one is to be asked behind.
var errSlow = errors.New("another server leads, and this one does not answer what it was asked")

// elsewhere has the lane go on at another server, if there is one.
func (l *lane) elsewhere(err error) {
	l.session.mu.Lock()
	cn := l.session.mu.conn
	l.session.mu.Unlock()
	if cn != nil && len(l.c.router.addresses()) > 1 {
		l.move.Store(true)
		cn.giveUp(err)
	}
}

// refusable is for how long a server may.
func (c *Client) refusable() time.Duration {
	select {
	case <-c.leaving:
		return closeElsewhere
	default:
		return elsewhereAfter
	}
}

// pause waits, and answers false when the lane was closed.
func (l *lane) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// linkError is why there is no connection, nil when there is one.
func (l *lane) linkError() error {
	l.link.Lock()
	defer l.link.Unlock()
	return l.link.err
}

// server says which server the lane is, or was last, connected to, and whether it
// is.
func (l *lane) server() (s ServerInfo, up bool) {
	l.link.Lock()
	defer l.link.Unlock()
	return l.link.server, l.link.up
}

// tend looks after the connection itself, and answers when to look again.
func (l *lane) tend(now time.Duration) time.Duration {
	c := l.c
	l.session.mu.Lock()
	cn := l.session.mu.conn
	leaving, open := l.session.mu.leaving, l.session.mu.sent.n
	if cn == nil {
		l.session.mu.Unlock()
		return now + aDay // attached wakes the keeper
	}
	trip := cn.trip
	l.session.mu.Unlock()
	// What counts for leases that hang on the connection is when the server took something last: that bytes come from
	// it does not say that it still hears. Where none does, the answer to the ping may be behind a long one.
	every, proved := c.opt.keepAlive, cn.tie.since()
	spoke, keeps := time.Duration(cn.spoke.Load()), c.keeper.keeps()
	silent := every // for so long, and again for so long after it was asked, it is given up
	if keeps {
		least := c.keeper.leastGrace()
		every = min(every, max(c.binds.least(least), minGrace)/probes)
		// Another one saves no lease that has less left than it takes to make it, and costs the others. An owner that
		// is bound for less than a moment, of whose leases the client keeps none, is not to be saved from one.
		least = min(least, max(c.binds.least(least), aMoment))
		silent = min(silent, max(least/probes, minGrace, 2*trip))
	}
	switch {
	case now-proved >= 2*silent && cn.pinged > proved && now-cn.pinged >= silent &&
		(now-spoke >= silent || c.keeper.keepsOn(cn.tie)):
		cn.giveUp(errSilent)
		return now + aDay
	case now-proved >= every && cn.pinged <= proved:
		cn.pinged = now
		l.ping(cn)
	case cn.told == 0:
		cn.told = now
	case open > 0 && cn.pinged <= proved && now-max(cn.pinged, cn.told) >= every:
		cn.told = now // what is open hides what was answered above it (settled.go)
		l.ping(cn)
	}
	// of a connection whose server told more
	if looks := cn.unansweredEvery(); now >= l.nextLook || l.nextLook > now+looks {
		if l.nextLook = now + looks; l.unanswered(proved) {
			cn.giveUp(errUnanswered)
			return now + aDay
		}
	}
	if leaving > 0 || now >= l.nextStale {
		l.nextStale = now + c.longestQueue/8
		cancelled, stale := l.session.overdue(now)
		for _, id := range cancelled {
			l.session.cancel(id)
		}
		if stale {
			cn.giveUp(errStale)
		}
	}
	if cn.pinged > proved {
		next := max(proved+2*silent, cn.pinged+silent, now+every/probes)
		if due := cn.pinged + every; due > now { // the next one is, if this one is answered
			next = min(next, due)
		}
		return min(next, l.nextStale)
	}
	if open > 0 {
		return min(max(cn.pinged, cn.told)+every, proved+every, l.nextStale)
	}
	return min(proved+every, l.nextStale)
}

// ping asks for a sign of life, and tells what was answered.
func (l *lane) ping(cn *conn) {
	ping := newCall(ignored{})
	ping.set(&wire.Request{Op: wire.OpPing})
	ping.urgent, ping.probe, ping.timed = true, true, true
	ping.only = cn.tie.number
	_ = l.session.submit(ping) // refused only when the client is closed
}

// probes is how many times a server is asked for a sign of life within the grace of the leases that hang on the
// connection. One such time before the grace is over the connection is given up, so that the next one may save them;
// but not before two signs of life would have come, on a long way.
const probes = 3

// aMoment is how long a server, or the way to it, may be slow with nothing wrong.
const aMoment = 3 * time.Second

// errSilent says why a connection was given up on which nothing came any more.
var errSilent = errors.New("the server is silent")

// errStale says why a connection was given up so that those who wait keep their
// places.
var errStale = errors.New("connecting again, to wait on")

// close ends the lane and answers its calls with an error.
func (l *lane) close(err error) {
	calls, cn := l.session.shut(err)
	l.end()
	if cn != nil {
		cn.nc.Close()
	}
	<-l.done // nobody else lands calls from here on
	l.c.fail(calls, err)
}
