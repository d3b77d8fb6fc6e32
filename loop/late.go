package loop

import (
	"time"

	"github.com/pathlockd/pathlockd/internal/tcp"
	"github.com/pathlockd/pathlockd/wire"
)

// What a client sends may lie here for long before it is taken: behind as many listings as it may have, of a log
// without a leader, or while it does not take its answers. Its client may be gone by then, though the connection is not
// (there was a proxy between), and have asked again elsewhere. Logs know a copy only for as long as they remember the
// session (groups, rememberMillis), so what may have lain here for too long is refused. The connection stays: who is
// there asks again.

// lateAfter is how long a request may lie unread and be carried out.
const lateAfter = 2 * tcp.GoneWithin

// What comes once the connection is read again may have lain there, too: in the kernel of the client, or in a proxy,
// which send more as soon as there is room. While a connection is read, nothing is under way for longer than
// tcp.GoneWithin: that is what logs count on of all connections. So what is read has lain unread for no longer than
// all the pauses together in which nothing was read, within as much reading (readOn). Short pauses do not add up to
// much. And who was answered something that was first asked in between, as it settles that (Request.Settled), has
// sent all since.

// readOn is for how long a connection is read until all has come that was sent before: the process may have stood
// still for a part of it.
const readOn = tcp.GoneWithin + standstill

// errReadLate tells a client that a request was not taken.
var errReadLate = wire.Errorf(wire.Unavailable,
	"the request lay unread for over %v, behind others that took so long to be answered; it was not carried "+
		"out; ask again", lateAfter)

// waited is how long a connection's requests are here that were not taken. Instants are by the server's uptime, 0:
// there are none.
type waited struct {
	later, in time.Duration // since when: the frames for which there is no room, and what was read behind them
	paused    time.Duration // since when nothing is read
	resumed   time.Duration // since when it is read, after a pause
	counted   time.Duration // up to when readFor counts
	readFor   time.Duration // how long it was read, since lay begins
	lay       time.Duration // the pauses since then, together
	before    time.Duration // those within readOn of reading before that
	seen      uint64        // the highest id that was read
	told      uint64        // id that was first read after pauses that count; 0: none is waited for
	toldAt    time.Duration // when
}

// unreads takes note that the connection is not read from now on.
func (s *session) unreads() {
	w, now := &s.waited, s.srv.pulse.uptime()
	if w.age(now); w.paused == 0 {
		w.paused, w.counted = now, 0
	}
}

// reads takes note that it is read.
func (s *session) reads() {
	w, now := &s.waited, s.srv.pulse.uptime()
	if w.paused != 0 {
		w.lay += now - w.paused
		w.paused, w.resumed, w.counted = 0, now, now
	}
}

// age forgets the pauses that are of no matter any more.
func (w *waited) age(now time.Duration) {
	if w.lay+w.before == 0 {
		return
	}
	if w.counted != 0 {
		w.readFor += now - w.counted
		w.counted = now
	}
	if w.readFor >= readOn {
		w.before, w.lay, w.readFor = w.lay, 0, 0
	}
	if w.paused == 0 && now-w.resumed >= readOn || w.lay+w.before == 0 {
		w.allNew()
	}
}

// allNew takes note that nothing that lay unread is to come yet.
func (w *waited) allNew() { w.lay, w.before, w.readFor, w.told = 0, 0, 0, 0 }

// since is since when what is read now may have been here, 0: it has just come.
func (s *session) since() time.Duration {
	w := &s.waited
	if w.lay+w.before == 0 {
		return 0
	}
	now := s.srv.pulse.uptime()
	if w.age(now); w.lay+w.before == 0 {
		return 0
	}
	return now - w.lay - w.before
}

// sentAfter takes note of what a request says that has been here since an uptime: its client has the answers to all
// ids below settled. If one of them was first read later than that, it was sent after it was answered, and so was
// what comes behind it.
func (s *session) sentAfter(settled uint64, since *time.Duration) {
	w := &s.waited
	if w.told == 0 || settled <= w.told {
		return
	}
	at := w.toldAt
	if *since = max(*since, at); w.paused == 0 && at >= w.resumed {
		w.allNew()
		return
	}
	w.lay, w.before, w.told = min(w.lay+w.before, s.srv.pulse.uptime()-at), 0, 0
}

// sees takes note of the id of a request that was read. One that was read before may be answered already.
func (s *session) sees(id uint64) {
	w := &s.waited
	if id <= w.seen {
		return
	}
	if w.seen = id; w.told == 0 && w.lay+w.before != 0 {
		w.told, w.toldAt = id, s.srv.pulse.uptime()
	}
}

// orNow is an uptime, and now if that is 0.
func (s *session) orNow(since time.Duration) time.Duration {
	if since == 0 {
		since = s.srv.pulse.uptime()
	}
	return since
}

// late says that what has been here since an uptime, 0: it has just come, is not to be carried out any more.
func (s *Server) late(since time.Duration) bool {
	return since != 0 && s.pulse.uptime()-since > lateAfter
}
