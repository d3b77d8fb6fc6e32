package pathlockd

import (
	"errors"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// What keeps locks may be asked of a server that answers all else, and never that: a page that it has forgotten, say.
// The connection lives then, and nothing else ends it. But a question that has no answer takes one of the places that
// there are for such questions (maxAsides), and with all of them taken what a later page tells is not asked for any
// more. So that connection is given up, and on the next one what is unanswered is asked again.
//
// A server answers each request within a time that it tells (request_timeout_ms), if only by refusing it. Twice that
// leaves as much for the way there and back, and what goes before it; a minute is twice what servers have unless they
// are told otherwise, and counts at least: a short time of a server's does not make ways faster. What is counted is how
// often a question was found unanswered, though what was sent later was answered, and not the time: while the process
// or the machine stands still nothing is counted, however long that is.

const (
	// leastUnanswered is how long a question that keeps locks may have no answer, at least.
	leastUnanswered = time.Minute
	// unansweredLooks is how often it is looked for in that time.
	unansweredLooks = 8
	// unansweredDoublings is how often that time doubles at most, each time that a connection was given up for it: what
	// the next one answers as little is not asked again each minute, as locks of short graces end with each connection.
	unansweredDoublings = 6
)

// errUnanswered says why a connection was given up on which all was well but for that.
var errUnanswered = errors.New("the server does not answer what locks rely on, and answers what it was asked since")

// unansweredEvery is how often it is to be looked for on a connection.
func (cn *conn) unansweredEvery() time.Duration {
	told := time.Duration(min(cn.limits.RequestMillis, wire.MaxTTLMillis)) * time.Millisecond
	return max(leastUnanswered, 2*told) / unansweredLooks
}

// unanswered says that the connection, on which what was sent at a time was answered, is to be given up. Of the home
// lane the next one is to another node, if there is one; the others' logs are where they are.
func (l *lane) unanswered(proved time.Duration) bool {
	most := l.session.unanswered(proved)
	switch {
	case most == 0:
		if l.clean++; l.clean > unansweredLooks {
			l.givenUp = 0
		}
		return false
	case most <= unansweredLooks<<l.givenUp:
		l.clean = 0
		return false
	}
	l.clean, l.givenUp = 0, min(l.givenUp+1, unansweredDoublings)
	if l == l.c.home {
		l.move.Store(true)
	}
	return true
}

// unanswered looks for questions of the keeper that have no answer though what was sent at a time, later, was answered.
// It says how often one of them was found so by now, the one that was most often.
func (s *session) unanswered(proved time.Duration) (most int) {
	var without []func() // which reach contexts of the program's own making: not under the lock
	s.mu.Lock()
	for c := range s.mu.sent.all() {
		if c.share == usersShare || c.waits || c.asked >= proved {
			continue
		}
		c.missed++
		most = max(most, c.missed)
		if w, ok := c.to.(*waiter); ok && w.goesWithout != nil && c.missed > unansweredLooks {
			without = append(without, w.goesWithout)
		}
	}
	s.mu.Unlock()
	for _, goes := range without {
		goes()
	}
	return most
}
