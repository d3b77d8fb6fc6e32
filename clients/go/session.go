package pathlockd

import (
	"crypto/rand"
	"errors"
	"iter"
	"strings"
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
	l  *lane
	mu struct {
		sync.Mutex
		id      sessionID
		epoch   uint64 // of the last hello
		lastID  uint64
		changes uint64 // requests sent that may change something
		conn    *conn  // nil while there is none
		limits  windows

		// Calls go from a queue to sent, and from sent to their receivers. again
		// goes first, and nothing new is sent before it is empty, but for pings.
		again   callQueue // sent before, on a connection that broke
		keeps   callQueue // likewise, what the keeper asks
		anew    callQueue // of those the acquires over the limit on waiting ones
		probes  callQueue // pings: a server that takes nothing else answers them
		urgent  callQueue // renewals, cancels
		ahead   callQueue // what the program asks and goes ahead
		turns   uint64    // of calls that came to ahead, to urgent and to normal
		streak  int       // calls of ahead that were sent since the last of normal
		normal  callQueue
		aside   callQueue // acquires over the limit on waiting ones
		sent    sentCalls
		flying  int // of sent, those that do not wait
		ordered int // of those, the ones that went ahead
		waits   int // of sent, those that do
		raises  int // of sent, what is asked before requests that raise tokens
		gathers int // of sent, questions with long answers that are not listings

		// What waits for the room of its share: listings over wire.MaxListings, behind which
		// renewals would lie unread, and what the keeper asks of a log that does not answer.
		shares     [maxShares]share
		holding    uint64 // those that hold calls, but for some that have gone
		nextShare  int    // which of them has its turn
		spareTaken int    // of sparePlaces
		known      known  // those that places are kept for

		backlog int             // calls of Go and Batch that are in a queue
		room    []chan struct{} // who waits for it to shrink

		corked  bool          // the reader is at work and will write what is sent meanwhile
		leaving int           // of sent, those that wait and whose callers have gone
		away    time.Duration // since when answers may have been missed, 0: none are
		unheard int           // calls of which nothing was heard since
		routed  bool          // of the home lane: requests go by ways
		closed  error

		settled uint64              // up to where, and not with, answers are settled
		looked  uint64              // lastID when that was worked out
		kept    map[uint64]struct{} // answered calls that may be asked again under their ids
	}
}

// sessionID names a session to the servers.
type sessionID [wire.SessionBytes]byte

// What a session answers to those who come with a call.
var (
	errRouted  = errors.New("pathlockd: the call goes another way")
	errRetired = errors.New("pathlockd: the session is over")
	errLate    = errors.New("pathlockd: the request came to be sent too late")
)

// begin makes the session a new one.
func (s *session) begin() {
	rand.Read(s.mu.id[:]) // never fails
	s.mu.epoch = 0
}

// named is what the session is called now.
func (s *session) named() sessionID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.id
}

// repeats is how long the server remembers the session, 0 before it said so.
func (s *session) repeats() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.limits.repeat
}

// submit takes a call and sends it as soon as it may be.
func (s *session) submit(c *call) error {
	f, err := s.put(c)
	f.flush()
	return err
}

// put is submit, but for flushing.
func (s *session) put(c *call) (f flusher, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.closed != nil:
		return f, s.mu.closed
	case (c.fixed || c.id != 0) && c.as != s.mu.id:
		return f, errRetired // it was forgotten, and is another one now
	case c.until != 0 && s.c.now() >= c.until:
		return f, errLate
	case c.loose && s.mu.routed:
		return f, errRouted
	case c.async && !c.pressed && s.mu.backlog >= s.c.opt.backlog:
		return f, ErrBacklog
	}
	c.session = s
	s.enqueue(c)
	if s.pump() {
		f = flusher{s.mu.conn, s.mu.flying > 1}
	}
	return f, nil
}

// route has ordered requests that come without a way refused from now on, and gives
// those that are here to one; it answers how many that are.
func (s *session) route(w *way) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.routed = true
	adopt := func(c *call) {
		if c.loose && !c.settled {
			c.counts = w
			n++
		}
		c.loose = false
	}
	for _, c := range s.mu.sent.sorted() {
		adopt(c)
	}
	for q := range s.queues() {
		for c := q.first; c != nil; c = c.next {
			adopt(c)
		}
	}
	return n
}

// tardy answers paths of requests that only this session may ask, and which were not answered for some time: what gives
// back what it took, and waits whose callers have gone. open says that there are any.
func (s *session) tardy(now, most time.Duration) (paths []string, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.conn == nil {
		return nil, false
	}
	for c := range s.mu.sent.all() {
		if !c.fixed && (!c.waits || !c.forsaken) {
			continue
		}
		if open = true; now-c.asked < most {
			continue
		}
		switch req := c.request(); {
		case len(req.Locks) > 0:
			paths = append(paths, strings.Clone(req.Locks[0].Path)) // which is of the call's frame
		case len(req.Releases) > 0:
			paths = append(paths, strings.Clone(req.Releases[0].Path))
		}
	}
	return paths, open
}

// queues are those that calls may be in.
func (s *session) queues() iter.Seq[*callQueue] {
	return func(yield func(*callQueue) bool) {
		for q := range s.held() {
			if !yield(q) {
				return
			}
		}
		for _, q := range [...]*callQueue{
			&s.mu.again, &s.mu.keeps, &s.mu.anew, &s.mu.probes, &s.mu.urgent, &s.mu.ahead, &s.mu.normal, &s.mu.aside,
		} {
			if !yield(q) {
				return
			}
		}
	}
}

// empty says that the session has no calls, nor any that may be asked again under their ids, as
// after a pause.
func (s *session) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.vacant()
}

func (s *session) vacant() bool {
	for q := range s.queues() {
		if q.first != nil {
			return false
		}
	}
	return s.mu.sent.n == 0 && len(s.mu.kept) == 0
}

// changes counts the requests sent that may change something, as to take a lock.
func (s *session) changes() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.changes
}

// retire ends the session if it is empty, and none was sent since they were counted.
func (s *session) retire(changes uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.vacant() || s.mu.changes != changes {
		return false
	}
	s.mu.closed = errRetired
	return true
}

// enqueue puts a call into its queue.
func (s *session) enqueue(c *call) {
	if c.async {
		s.mu.backlog++
	}
	switch {
	case c.id != 0:
		s.unkeep(c)
		s.sentQueue(c).push(c)
	case c.probe:
		s.mu.probes.push(c)
	case c.ordered:
		s.promote(c)
		s.mu.turns++
		c.turn = s.mu.turns
		s.mu.ahead.push(c)
	case c.urgent:
		s.mu.turns++
		c.turn = s.mu.turns
		s.mu.urgent.push(c)
	default:
		s.mu.turns++
		c.turn = s.mu.turns
		s.mu.normal.push(c)
	}
}

// sentQueue is the queue of a call that was sent before.
func (s *session) sentQueue(c *call) *callQueue {
	if c.share != usersShare {
		return &s.mu.keeps
	}
	return &s.mu.again
}

// pump sends what may be sent, and answers whether it is the caller's to flush it,
// once it has let go of the lock; else others will.
func (s *session) pump() (mine bool) {
	cn := s.mu.conn
	if cn == nil {
		return false
	}
	defer s.takesMore()
	s.late(&s.mu.again)
	for c := s.mu.probes.first; c != nil; c = s.mu.probes.first {
		s.send(cn, &s.mu.probes, c)
	}
	full := s.repeat(cn)
	for c := s.mu.urgent.first; c != nil; c = s.mu.urgent.first {
		if c.strayed(cn) {
			s.mu.urgent.remove(c)
			c.free()
			continue
		}
		if !s.roomy(c) || c.share != usersShare && !s.mu.shares[c.share].vacant() {
			s.mu.urgent.remove(c)
			s.hold(c)
			continue
		}
		if !s.fits(c, s.mu.limits.all) {
			return s.claim()
		}
		s.send(cn, &s.mu.urgent, c)
	}
	s.sendHeld(cn)
	s.sendAhead(cn, full)
	if full {
		return s.claim()
	}
	for _, q := range [...]*callQueue{&s.mu.anew, &s.mu.aside} {
		for c := q.first; c != nil && s.fits(c, 0) && !s.later(c); c = q.first {
			if s.outdated(c) {
				q.remove(c)
				s.abandon(c)
				continue
			}
			s.send(cn, q, c)
		}
	}
	for _, k := range [...]kind{listing, describing} {
		q := &s.mu.shares[usersShare].waits[k]
		s.late(q)
		for c := q.first; c != nil && s.fits(c, s.mu.limits.users); c = q.first {
			s.send(cn, q, c)
			s.late(q)
		}
	}
	for more := true; more; {
		s.sendNormal(cn)
		more = s.sendAhead(cn, full) // it may have yielded to what was sent just now, and that may have come behind it
	}
	return s.claim()
}

// sendNormal sends users' requests that do not go ahead, as far as there is room.
func (s *session) sendNormal(cn *conn) {
	s.late(&s.mu.normal)
	for c := s.mu.normal.first; c != nil && !s.later(c); c = s.mu.normal.first {
		if s.fits(c, s.mu.limits.users) {
			s.mu.streak = 0
			s.send(cn, &s.mu.normal, c)
			s.late(&s.mu.normal)
			continue
		}
		if c.answer != wire.ShortAnswer && !s.roomy(c) {
			s.mu.normal.remove(c)
			s.hold(c)
			continue
		}
		if !c.waits {
			break
		}
		// Those behind it may be what ends the waits that are in its way.
		s.mu.normal.remove(c)
		s.mu.aside.push(c)
		s.late(&s.mu.normal)
	}
}

// sendAhead sends what goes ahead, as far as that may go, and says whether it sent anything.
func (s *session) sendAhead(cn *conn, full bool) (sent bool) {
	for c := s.mu.ahead.first; c != nil && s.leads(c, full); c = s.mu.ahead.first {
		s.mu.streak++
		s.send(cn, &s.mu.ahead, c)
		sent = true
	}
	return sent
}

// repeat sends what was sent before on a connection that broke, in its order, and answers whether some of it had no
// room, as the window is smaller than that which it was sent in: nothing of users goes before what they asked
// earlier. What keeps locks has a reserve, also behind what has not, and holds nobody up.
func (s *session) repeat(cn *conn) (full bool) {
	users, keeps := s.mu.again.first, s.mu.keeps.first
	for users != nil || keeps != nil {
		c := keeps
		if keeps == nil || users != nil && users.id < keeps.id {
			if full {
				users = nil // none goes: they may be very many
				continue
			}
			c, users = users, users.next
		} else {
			keeps = keeps.next
		}
		switch {
		case c.until != 0 && s.c.now() >= c.until:
			c.in.remove(c)
			s.tooLate(c)
		case s.fits(c, s.most(c)):
			s.send(cn, c.in, c)
		case c.waits: // those aside took its place meanwhile
			c.in.remove(c)
			s.crowded(c)
		case c.answer != wire.ShortAnswer && !s.roomy(c): // a read: it is asked anew
			c.in.remove(c)
			s.heardOf(c)
			if c.id, c.on, c.resent = 0, 0, false; c.async {
				s.mu.backlog++
			}
			s.hold(c)
		case c.share == usersShare:
			full = true
		}
	}
	return full
}

// later says that a call was asked behind one of ahead that has no room. It does not go before that, though it has,
// as waits may: they are counted apart.
func (s *session) later(c *call) bool {
	first := s.mu.ahead.first
	return first != nil && c.id == 0 && c.turn > first.turn
}

// leads reports whether c, the first of ahead, is sent. It leaves the room that comes free to two kinds of users'
// requests, as a program that always has some of ahead would starve its others: to those that are asked again and
// have no room (full), and to one that was asked before c and has waited for a whole window of ahead. What has that
// room may be stuck until its log has a leader again; meanwhile a few go beside. Calls of ahead keep their order,
// also those that are asked again, and none goes before a renewal of its owner that is.
func (s *session) leads(c *call, full bool) bool {
	if full && (s.mu.again.ordered > 0 || s.mu.again.renewals[c.renews] > 0) || !s.fits(c, s.most(c)) {
		return false
	}
	n, w := s.mu.normal.first, &s.mu.limits
	if !full && (n == nil || n.turn > c.turn || s.mu.streak < w.all) {
		return true
	}
	flying, own := s.mu.flying, s.mu.shares[usersShare].flying
	inTheWay := !w.open(flying-s.mu.ordered, own-s.mu.ordered, w.users)
	return inTheWay || w.open(flying+1, own+1, w.users)
}

// crowded puts a wait aside that is to be asked again, and for which there is no room: others have taken its place,
// or the server takes fewer. That may be for as long as they wait, so nothing is held up by it: neither what comes
// behind it on its way, which may be what ends them, nor the session, which is heard of by them.
func (s *session) crowded(c *call) {
	if c.crowded == 0 {
		if c.crowded = s.mu.away; c.crowded == 0 {
			c.crowded = s.c.now()
		}
	}
	if c.forsaken || s.outdated(c) { // what it took is given back
		s.abandon(c)
		return
	}
	s.heardOf(c)
	if w := c.settle(); w != nil {
		go w.settled() // not here, under the lock
	} else {
		c.settled = true // for when it gets one
	}
	s.mu.anew.push(c)
}

// outdated says that a call has been without room for so long that its log may have forgotten it.
func (s *session) outdated(c *call) bool {
	return c.crowded != 0 && s.c.now()-c.crowded >= s.mu.limits.repeat-s.mu.limits.repeat/10
}

// abandon answers a call that was taken out of its queue, and of which nobody will know what became.
func (s *session) abandon(c *call) {
	s.heardOf(c)
	go s.c.fail([]*call{c}, ErrOutcomeUnknown) // not here, under the lock
}

// takesMore tells who waits for the backlog to shrink that it has. Called under the lock.
func (s *session) takesMore() {
	if len(s.mu.room) == 0 || s.mu.backlog >= s.c.opt.backlog {
		return
	}
	for _, ready := range s.mu.room {
		close(ready)
	}
	s.mu.room = nil
}

// recall takes calls of a way back that were never sent, in the order in which they would have been.
func (s *session) recall(w *way) (calls []*call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	take := func(q *callQueue) {
		for c := q.first; c != nil; {
			one := c
			if c = c.next; one.way != w || one.counts != w || one.settled {
				continue // or it came before there were ways
			}
			if q.remove(one); one.async {
				s.mu.backlog--
			}
			one.session = nil
			calls = append(calls, one)
		}
	}
	for q := range s.held() {
		take(q)
	}
	for _, q := range [...]*callQueue{&s.mu.urgent, &s.mu.ahead, &s.mu.aside, &s.mu.normal} {
		take(q)
	}
	s.takesMore()
	if len(calls) > 0 && s.pump() { // what came behind them may go now
		go flusher{s.mu.conn, false}.flush() // not here, under the lock
	}
	return calls
}

// late takes calls out of a queue's front that are not to be sent any more, to be told so.
func (s *session) late(q *callQueue) {
	for c := q.first; c != nil && c.until != 0 && s.c.now() >= c.until; c = q.first {
		q.remove(c)
		s.tooLate(c)
	}
}

// tooLate answers a call that was taken out of its queue, and is not to be sent any more.
func (s *session) tooLate(c *call) {
	s.heardOf(c)
	go s.c.fail([]*call{c}, errLate) // not here, under the lock
}

// fits says that a call may be sent, when so many that do not wait may be
// unanswered.
func (s *session) fits(c *call, most int) bool {
	switch {
	case c.probe:
		return true // a refusal is an answer too
	case c.waits:
		return s.mu.waits < s.mu.limits.waiting
	}
	if !s.roomy(c) {
		return false
	}
	if c.share != usersShare {
		return s.mu.flying < most
	}
	return s.mu.limits.open(s.mu.flying, s.mu.shares[usersShare].flying, most)
}

// send moves a call from its queue to the connection's output.
func (s *session) send(cn *conn, q *callQueue, c *call) {
	q.remove(c)
	if c.id == 0 {
		if c.mutates() {
			s.mu.changes++
		}
		if c.async { // what is sent again was counted out before
			s.mu.backlog--
		}
		s.mu.lastID++
		c.number(s.mu.lastID)
		c.as = s.mu.id
	}
	switch {
	case c.sent != 0:
	case c.async && s.mu.corked:
		c.sent = time.Duration(cn.heard.Load()) // just now: to ask the clock costs a fifth of such a call
	case c.timed || c.async:
		c.sent = s.c.now()
	}
	c.resent = c.resent || c.on != 0 && c.on != cn.tie.number
	c.on = cn.tie.number
	switch to := c.to.(type) {
	case *lease:
		at := c.sent
		if c.resent {
			at = s.c.now()
		}
		to.sent.Store(&tieFrom{cn.tie, at})
	case *look:
		to.sent.Store(true)
	}
	s.mu.sent.put(c)
	cn.out = c.append(cn.out, s.settle(c), cn.limits.Answers > 0)
	if !c.waits {
		if c.fixed || c.share != usersShare {
			c.asked, c.missed = s.c.now(), 0
		}
		if c.share != usersShare {
			s.sends(c.share, c.asked)
		}
		s.counted(c, 1)
		return
	}
	s.mu.waits++
	c.asked, c.crowded = s.c.now(), 0
	if c.forsaken { // it was cancelled, but who knows whether that arrived
		s.mu.leaving++
		c.cancels = true
		s.enqueue(s.cancelOf(c.id))
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
		s.counted(c, -1)
	case c.forsaken:
		s.mu.leaving--
		fallthrough
	default:
		s.mu.waits--
	}
	s.heardOf(c)
	return c
}

// shut refuses further calls and answers those there are, to be told.
func (s *session) shut(err error) (calls []*call, cn *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.closed = err
	calls = s.mu.sent.sorted()
	s.mu.sent.clear()
	for q := range s.queues() {
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
