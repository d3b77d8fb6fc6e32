package pathlockd

import (
	"errors"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// What keeps locks may be asked of a server that answers all else, and never that: a page that it has forgotten, say. The
// connection lives then, and nothing else ends it. But a question that has no answer takes one of the places that there
// are for such questions (maxAsides), and with all of them taken what a later page tells is not asked for any more.
// So that connection is given up, and on the next one what is unanswered is asked again.
//
// A server answers each request within a time that it tells (request_timeout_ms), if only by refusing it. Twice
// that leaves as much for the way there and back, and what goes before it; a minute is twice what servers have unless they
// are told otherwise, and counts at least: a short time of a server's does not make ways faster. What is counted is how
// often a question was found unanswered, though what was sent later was answered, and not the time: while the process or
// the machine stands still nothing is counted, however long that is.

const (
	// leastUnanswered is how long a question that keeps locks may have no answer, at least.
	leastUnanswered = time.Minute
	// unansweredLooks is how often it is looked for in that time.
	unansweredLooks = 8
)

// errUnanswered says why a connection was given up on which all was well but for that.
var errUnanswered = errors.New("the server does not answer what locks rely on, and answers what it was asked since")

// unansweredEvery is how often it is to be looked for on a connection.
func (cn *conn) unansweredEvery() time.Duration {
	told := time.Duration(min(cn.limits.RequestMillis, wire.MaxTTLMillis)) * time.Millisecond
	return max(leastUnanswered, 2*told) / unansweredLooks
}

// unanswered looks for questions of the keeper that have no answer, on a connection on which what was sent at a time was
// answered, and says whether one of them has been found so too often.
func (s *session) unanswered(proved time.Duration) (found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	look := func(c *call) {
		if c == nil || c.share == usersShare || c.waits || c.asked >= proved {
			return
		}
		if c.missed++; c.missed > unansweredLooks {
			found = true
		}
	}
	for _, c := range s.mu.sent.ring {
		look(c)
	}
	for _, c := range s.mu.sent.late {
		look(c)
	}
	return found
}
