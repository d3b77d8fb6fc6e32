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

// readOn is for how long a connection is read without a pause until what lay before it counts as read, and what comes as new:
// of what a proxy holds, more comes as soon as there is room.
const readOn = time.Second

// errReadLate tells a client that a request was not taken.
var errReadLate = wire.Errorf(wire.Unavailable,
	"the request lay unread for over %v, behind others that took so long to be answered; it was not carried out; ask again", lateAfter)

// waited is since when a connection's requests are here that were not taken. Times are the server's uptime, 0: there are none.
type waited struct {
	later, in time.Duration // the frames for which there is no room, and what was read behind them
	unread    time.Duration // what was not read, at the earliest
	reading   time.Duration // since when it is read without a pause; 0: it is not
}

// unreads takes note that the connection is not read from now on.
func (s *session) unreads() {
	if s.waited.reading = 0; s.waited.unread == 0 {
		s.waited.unread = s.srv.pulse.uptime()
	}
}

// reads takes note that it is read.
func (s *session) reads() {
	if s.waited.reading == 0 {
		s.waited.reading = s.srv.pulse.uptime()
	}
}

// since is since when what is read now may have been here, 0: it has just come.
func (s *session) since() time.Duration {
	w := &s.waited
	if w.unread != 0 && w.reading != 0 && s.srv.pulse.uptime()-w.reading >= readOn {
		w.unread = 0
	}
	return w.unread
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
