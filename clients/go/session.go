package pathlockd

import (
	"cmp"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// session is the client as the server knows it, across its connections: it gives
// requests their ids, keeps those that are unanswered, and sends them again when a
// connection broke (PROTOCOL.md section 3).
//
// Everything in mu is shared by callers, the reader of the connection and the
// keeper. The lock is held for bookkeeping and for copying frames, never while
// anything is read, written or called back.
type session struct {
	c  *Client
	mu struct {
		sync.Mutex
		id     [wire.SessionBytes]byte
		epoch  uint64 // of the last hello
		lastID uint64
		conn   *conn // nil while there is none
		limits windows

		// Calls go from a queue to sent, and from sent to their receivers. again
		// goes first, and nothing new is sent before it is empty.
		again  callQueue // sent before, on a connection that broke
		urgent callQueue // renewals, pings, cancels
		normal callQueue
		aside  callQueue // acquires over the limit on waiting ones
		sent   sentCalls
		flying int // of sent, those that do not wait
		waits  int // of sent, those that do

		backlog int             // calls of Go and Batch that are in a queue
		room    []chan struct{} // who waits for it to shrink

		corked  bool          // the reader is at work and will write what is sent meanwhile
		leaving int           // of sent, those that wait and whose callers have gone
		away    time.Duration // since when answers may have been missed, 0: none are
		unheard int           // calls of which nothing was heard since
		closed  error
	}
}

// windows is how many calls may be unanswered on a connection.
type windows struct {
	all     int // of those that do not wait
	users   int // what users' requests may take of it; the rest is the keeper's
	waiting int
	frame   int           // bytes of a payload
	repeat  time.Duration // how long the server remembers the session
	subs    int
}

// reserve is the share of the window that users' requests leave to renewals: one
// in reserve.
const reserve = 16

func windowsOf(l *wire.Limits, asked int) windows {
	w := windows{
		all: int(min(l.InFlight, 1<<20)), waiting: int(min(l.Waiting, 1<<20)), frame: int(min(l.FrameBytes, wire.MaxFrameBytes)),
		repeat: time.Duration(min(l.RepeatMillis, wire.MaxTTLMillis)) * time.Millisecond, subs: int(min(l.Subscriptions, 1<<20)),
	}
	if asked > 0 {
		w.all = min(w.all, asked)
	}
	w.all, w.waiting = max(w.all, 1), max(w.waiting, 1)
	w.users = w.all
	if w.all > 1 {
		w.users -= max(1, w.all/reserve)
	}
	return w
}

// begin makes the session a new one.
func (s *session) begin() {
	rand.Read(s.mu.id[:]) // never fails
	s.mu.epoch = 0
}

// submit takes calls, in their order, and sends them as soon as they may be.
func (s *session) submit(calls ...*call) error {
	s.mu.Lock()
	if err := s.mu.closed; err != nil {
		s.mu.Unlock()
		return err
	}
	for _, c := range calls {
		if c.async && s.mu.backlog >= s.c.opt.backlog {
			s.mu.Unlock()
			return ErrBacklog
		}
		s.enqueue(c)
	}
	cn, mine := s.mu.conn, s.pump()
	crowd := s.mu.flying > 1
	s.mu.Unlock()
	if mine {
		cn.flush(crowd)
	}
	return nil
}

// enqueue puts a call into its queue.
func (s *session) enqueue(c *call) {
	if c.async {
		s.mu.backlog++
	}
	switch {
	case c.id != 0:
		s.mu.again.push(c)
	case c.urgent:
		s.mu.urgent.push(c)
	default:
		s.mu.normal.push(c)
	}
}

// pump sends what may be sent, and answers whether it is the caller's to flush it,
// once it has let go of the lock; else others will.
func (s *session) pump() (mine bool) {
	cn := s.mu.conn
	if cn == nil {
		return false
	}
	for c := s.mu.again.first; c != nil; c = s.mu.again.first {
		if !s.fits(c, s.mu.limits.all) {
			return s.claim()
		}
		s.send(cn, &s.mu.again, c)
	}
	for c := s.mu.urgent.first; c != nil; c = s.mu.urgent.first {
		if c.only != 0 && c.only != cn.number {
			s.mu.urgent.remove(c)
			c.free()
			continue
		}
		if !s.fits(c, s.mu.limits.all) {
			return s.claim()
		}
		s.send(cn, &s.mu.urgent, c)
	}
	for c := s.mu.aside.first; c != nil && s.fits(c, 0); c = s.mu.aside.first {
		s.send(cn, &s.mu.aside, c)
	}
	for c := s.mu.normal.first; c != nil; c = s.mu.normal.first {
		if s.fits(c, s.mu.limits.users) {
			s.send(cn, &s.mu.normal, c)
			continue
		}
		if !c.waits {
			break
		}
		// Those behind it may be what ends the waits that are in its way.
		s.mu.normal.remove(c)
		s.mu.aside.push(c)
	}
	if len(s.mu.room) > 0 && s.mu.backlog < s.c.opt.backlog {
		for _, ready := range s.mu.room {
			close(ready)
		}
		s.mu.room = nil
	}
	return s.claim()
}

// fits says that a call may be sent, when so many that do not wait may be
// unanswered.
func (s *session) fits(c *call, most int) bool {
	if c.waits {
		return s.mu.waits < s.mu.limits.waiting
	}
	return s.mu.flying < most
}

// send moves a call from its queue to the connection's output.
func (s *session) send(cn *conn, q *callQueue, c *call) {
	q.remove(c)
	if c.async {
		s.mu.backlog--
	}
	if c.id == 0 {
		s.mu.lastID++
		c.number(s.mu.lastID)
	}
	if c.timed && c.sent == 0 {
		c.sent = s.c.now()
	}
	c.resent = c.resent || c.on != 0 && c.on != cn.number
	c.on = cn.number
	s.mu.sent.put(c)
	cn.out = append(cn.out, c.frame...)
	if !c.waits {
		s.mu.flying++
		return
	}
	s.mu.waits++
	c.asked = s.c.now()
	if c.forsaken { // it was cancelled, but who knows whether that arrived
		s.mu.leaving++
		s.enqueue(cancelOf(c.id))
	}
}

// claim makes the caller the one who writes, if somebody must.
func (s *session) claim() (mine bool) { return !s.mu.corked && s.mu.conn.claim() }

// answered takes a call off the list of sent ones, nil if it is not on it.
func (s *session) answered(id uint64) *call {
	c := s.mu.sent.take(id)
	if c == nil {
		return nil
	}
	switch {
	case !c.waits:
		s.mu.flying--
	case c.forsaken:
		s.mu.leaving--
		fallthrough
	default:
		s.mu.waits--
	}
	s.heardOf(c)
	return c
}

// heardOf notes that the server has a call that was sent again.
func (s *session) heardOf(c *call) {
	if !c.unheard {
		return
	}
	c.unheard = false
	if s.mu.unheard--; s.mu.unheard == 0 {
		s.mu.away = 0
	}
}

// lost takes note that a connection is gone, of which the last bytes were heard at
// a time: what was unanswered on it is to be sent again.
func (s *session) lost(cn *conn, heard time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.conn == cn {
		s.mu.conn = nil
	}
	all := s.mu.sent.sorted()
	s.mu.sent.clear()
	s.mu.flying, s.mu.waits, s.mu.leaving, s.mu.corked = 0, 0, 0, false
	for c := s.mu.again.first; c != nil; c = s.mu.again.first {
		s.mu.again.remove(c)
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *call) int { return cmp.Compare(a.id, b.id) })
	s.mu.unheard = 0
	for _, c := range all {
		c.unheard = false
		if c.op == wire.OpCancel || c.only != 0 || c.forsaken && !c.undo && !c.must {
			continue // nobody wants to know any more
		}
		c.unheard = true
		s.mu.unheard++
		s.mu.again.push(c)
	}
	if s.mu.unheard == 0 {
		s.mu.away = 0
	} else if s.mu.away == 0 {
		s.mu.away = heard
	}
}

// hello answers what to say at the next hello, and the calls whose outcome nobody
// will know because the server has forgotten the session since.
func (s *session) hello(heard time.Duration) (id [wire.SessionBytes]byte, epoch, request uint64, unknown []*call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := s.mu.away
	if since == 0 {
		since = heard
	}
	// A tenth less than the server says, as clocks do not run alike.
	if repeat := s.mu.limits.repeat; s.mu.epoch > 0 && s.c.now()-since >= repeat-repeat/10 {
		unknown = s.renounce()
	}
	s.mu.epoch++
	s.mu.lastID++
	return s.mu.id, s.mu.epoch, s.mu.lastID, unknown
}

// renounce begins a new session. Reads are asked anew; what may have changed
// something is given up.
func (s *session) renounce() (unknown []*call) {
	s.begin()
	var reads []*call
	for c := s.mu.again.first; c != nil; c = s.mu.again.first {
		s.mu.again.remove(c)
		c.unheard = false
		if c.mutates() {
			unknown = append(unknown, c)
			continue
		}
		c.id, c.on, c.resent = 0, 0, false
		reads = append(reads, c)
	}
	s.mu.unheard, s.mu.away = 0, 0
	for c := s.mu.normal.first; c != nil; c = s.mu.normal.first {
		s.mu.normal.remove(c)
		reads = append(reads, c)
	}
	for _, c := range reads {
		s.mu.normal.push(c)
	}
	return unknown
}

// resume makes cn the session's connection.
func (s *session) resume(cn *conn, w windows) error {
	s.mu.Lock()
	if err := s.mu.closed; err != nil {
		s.mu.Unlock()
		return err
	}
	s.mu.limits = w
	s.mu.sent.grow(w.all + s.mu.sent.n)
	s.mu.conn = cn
	mine := s.pump()
	s.mu.Unlock()
	if mine {
		cn.flush(false)
	}
	return nil
}

// forsake is called for a call whose caller has gone. It answers whether the call
// was never sent, and now never will be.
func (s *session) forsake(c *call) (unsent bool) {
	s.mu.Lock()
	if q := c.in; q != nil && c.id == 0 && !c.must {
		q.remove(c)
		s.mu.Unlock()
		return true
	}
	c.forsaken = true
	waiting := c.waits && c.in == nil && s.mu.sent.get(c.id) == c
	if !waiting {
		s.mu.Unlock()
		return false
	}
	s.mu.leaving++
	id := c.id
	s.mu.Unlock()
	s.cancel(id)
	return false
}

// cancel asks the server to end a waiting acquire.
func (s *session) cancel(id uint64) {
	if c := cancelOf(id); s.submit(c) != nil {
		c.free()
	}
}

func cancelOf(id uint64) *call {
	c := newCall(ignored{})
	c.set(&wire.Request{Op: wire.OpCancel, Target: id})
	c.urgent = true
	return c
}

// overdue answers the waiting acquires that should have ended by now, as they were
// cancelled: a cancel that overtakes its acquire inside the server ends nothing. It
// also says whether some wait so long that they need to be asked again to keep their
// places.
func (s *session) overdue(now time.Duration) (cancelled []uint64, stale bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.waits == 0 {
		return nil, false
	}
	for _, c := range s.mu.sent.sorted() {
		switch {
		case c.waits && c.forsaken:
			cancelled = append(cancelled, c.id)
		case c.forever && now-c.asked >= s.c.longestQueue/2:
			stale = true
		}
	}
	return cancelled, stale
}

// ignored is the receiver of what nobody waits for.
type ignored struct{}

func (ignored) land(c *call, _ *reply) { c.free() }

// shut refuses further calls and answers those there are, to be told.
func (s *session) shut(err error) (calls []*call, cn *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.closed = err
	calls = s.mu.sent.sorted()
	s.mu.sent.clear()
	for _, q := range []*callQueue{&s.mu.again, &s.mu.urgent, &s.mu.normal, &s.mu.aside} {
		for c := q.first; c != nil; c = q.first {
			q.remove(c)
			calls = append(calls, c)
		}
	}
	for _, ready := range s.mu.room {
		close(ready)
	}
	s.mu.room = nil
	return calls, s.mu.conn
}
