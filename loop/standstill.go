package loop

import (
	"sync/atomic"
	"time"

	"github.com/pathlockd/pathlockd/internal/tcp"
	"github.com/pathlockd/pathlockd/wire"
)

// A process that stood still, as a debugger, a snapshot of its machine, or memory that is swapped out has it, goes on
// where it was: it reads what clients sent before. They have gone on elsewhere since, and asked again there; by now the
// logs may have forgotten that, and would carry it out once more. Logs remember for longer than it takes what comes
// from a client who is there to be carried out (groups/replica/session.go). So what may have lain here for longer than
// a client counts as gone is not read: its connection is closed, as that of a client who says nothing for as long.

// standstill is how long the process may stand still and take what came meanwhile.
const standstill = tcp.GoneWithin

// settles is how long after it stood still connections are not taken: they may have been waiting for as long.
const settles = time.Second

// pulse notices that the process stood still. Its times are of uptime.
type pulse struct {
	begin time.Time
	known atomic.Pointer[beat]
}

// beat is what was known when the process last noted that it runs: in one, so that who looks at any instant sees that
// it stood still, by the one or the other.
type beat struct {
	last  time.Duration // when that was
	stood time.Duration // when it was noticed last that it had stood still, 0: never
}

// starts begins the times.
func (p *pulse) starts() {
	p.begin = time.Now()
	p.known.Store(new(beat))
}

// uptime is how long the server is there, by a clock that only goes forward.
func (p *pulse) uptime() time.Duration { return time.Since(p.begin) }

// beats notes that the process runs, and answers for how long it stood still right before, 0 if for less than counts.
// One goroutine calls it.
func (p *pulse) beats() (stood time.Duration) {
	now, was := p.uptime(), p.known.Load()
	next := beat{last: now, stood: was.stood}
	if stood = now - was.last; stood > standstill {
		next.stood = now
	} else {
		stood = 0
	}
	p.known.Store(&next)
	return stood
}

// stale says that what is read now, on a connection that was taken at an uptime, may have been sent before the process
// stood still.
func (p *pulse) stale(opened time.Duration) bool {
	b := p.known.Load()
	return p.uptime()-b.last > standstill || b.stood != 0 && opened < b.stood+settles
}

// errStoodStill tells clients whose connections are older than a standstill. Not with Unavailable, which says that what
// is tied to the connection does not end with it (PROTOCOL.md section 3).
var errStoodStill = wire.Errorf(wire.DeadlineExceeded,
	"the node stood still for over %v; what was sent meanwhile was not taken", standstill)
