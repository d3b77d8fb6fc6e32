package loop

import (
	"time"

	"github.com/pathlockd/pathlockd/internal/tcp"
	"github.com/pathlockd/pathlockd/wire"
)

// What a client sends may lie here for long before it is taken: behind as many listings as it may have, of a log without a
// leader, or while it does not take its answers. Its client may be gone by then, though the connection is not (there was a
// proxy between), and have asked again elsewhere. Logs know a copy only for as long as they remember the session
// (groups, rememberMillis), so what may have lain here for too long is refused. The connection stays: who is there asks again.

// lateAfter is how long a request may lie unread and be carried out.
const lateAfter = 2 * tcp.GoneWithin

// What comes once the connection is read again may have lain there, too: in the kernel of the client, or in a proxy, which
// send more as soon as there is room. It counts as old until something shows that it is not:
//
//   - that of all that lay there this server had room for more: less came by the first reads than the smallest buffer of a
//     socket holds (smallBuffer), and nothing was left then;
//   - that its client had the answer to something that was answered since (Request.Settled);
//   - that the connection is read without a pause for so long that all has come that is under way (readOn).

// smallBuffer is what a socket takes at least before its peer has to wait, bytes: the least that Linux gives one.
const smallBuffer = 4 << 10

// readOn is for how long a connection is to be read without a pause until all has come that was sent before: what is under way
// for longer than tcp.GoneWithin ends its connection, and the process may have stood still for a part of it.
const readOn = tcp.GoneWithin + standstill

// errReadLate tells a client that a request was not taken.
var errReadLate = wire.Errorf(wire.Unavailable,
	"the request lay unread for over %v, behind others that took so long to be answered; it was not carried out; ask again", lateAfter)

// waited is since when a connection's requests are here that were not taken. Times are the server's uptime, 0: there are none.
type waited struct {
	later, in time.Duration // the frames for which there is no room, and what was read behind them
	unread    time.Duration // what was not read, at the earliest
	reading   time.Duration // since when it is read without a pause; 0: it is not
	read      int           // bytes that were since unread
	told      uint64        // id of a request that was answered since; 0: none was
	toldAt    time.Duration // when
}

// unreads takes note that the connection is not read from now on.
func (s *session) unreads() {
	if s.since() == 0 {
		s.waited.unread = s.srv.pulse.uptime()
	}
	s.waited.reading = 0
}

// reads takes note that it is read.
func (s *session) reads() {
	if s.waited.reading == 0 {
		s.waited.reading = s.srv.pulse.uptime()
	}
}

// came answers since when bytes that were read just now may have been here, 0: they have just come.
func (s *session) came(bytes int) time.Duration {
	since, w := s.since(), &s.waited
	if since != 0 {
		if w.read += bytes; w.read < smallBuffer {
			w.allNew()
		}
	}
	return since
}

// since is that of what would be read now.
func (s *session) since() time.Duration {
	w := &s.waited
	if w.unread != 0 && w.reading != 0 && s.srv.pulse.uptime()-w.reading >= readOn {
		w.allNew()
	}
	return w.unread
}

// allNew takes note that nothing that lay unread is to come yet.
func (w *waited) allNew() { w.unread, w.read, w.told = 0, 0, 0 }

// tells takes note that a request is answered.
func (s *session) tells(id uint64) {
	if w := &s.waited; w.unread != 0 && w.told == 0 {
		w.told, w.toldAt = id, s.srv.pulse.uptime()
	}
}

// sentAfter takes note of what a request says that has been here since an uptime: its client has the answers to all ids below
// settled. If one of them was answered later than that, it was sent after that answer, and so was what comes behind it.
func (s *session) sentAfter(settled uint64, since *time.Duration) {
	w := &s.waited
	if w.told == 0 || settled <= w.told {
		return
	}
	at := w.toldAt
	if w.told = 0; w.reading != 0 && at >= w.reading {
		w.allNew()
	} else if w.unread < at {
		w.unread = at
	}
	*since = max(*since, at)
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
