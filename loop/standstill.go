package loop

import (
	"sync/atomic"
	"time"

	"github.com/pathlockd/pathlockd/internal/tcp"
	"github.com/pathlockd/pathlockd/wire"
)

// A process that stood still, as a debugger, a snapshot of its machine, or memory that is swapped out has it, goes on where it
// was: it reads what clients sent before. They have gone on elsewhere since, and asked again there; by now the logs may have
// forgotten that, and would carry it out once more. Logs remember for longer than it takes what comes from a client who is
// there to be carried out (groups/session.go). So what may have lain here for longer than a client counts as gone is not read:
// its connection is closed, as that of a client who says nothing for as long.

// standstill is how long the process may stand still and take what came meanwhile.
const standstill = tcp.GoneWithin

// settles is how long after it stood still connections are not taken: they may have been waiting for as long.
const settles = time.Second

// pulse notices that the process stood still. Its times are since begin.
type pulse struct {
	begin time.Time
	last  atomic.Int64 // when it was last known to run
	stood atomic.Int64 // when it was noticed last that it had stood still, 0: never
}

// beats notes that the process runs, and answers for how long it stood still right before, 0 if for less than counts.
func (p *pulse) beats() time.Duration {
	now := int64(time.Since(p.begin))
	stood := now - p.last.Load()
	if stood <= int64(standstill) {
		p.last.Store(now)
		return 0
	}
	p.stood.Store(now) // before last: who looks sees one of the two (stale)
	p.last.Store(now)
	return time.Duration(stood)
}

// stale says that what is read now, on a connection that was taken at a time since begin, may have been sent before the process
// stood still.
func (p *pulse) stale(opened time.Duration) bool {
	last := p.last.Load()
	if int64(time.Since(p.begin))-last > int64(standstill) {
		return true
	}
	stood := p.stood.Load()
	return stood != 0 && int64(opened) < stood+int64(settles)
}

// errStoodStill tells clients whose connections are older than a standstill.
var errStoodStill = wire.Errorf(wire.Unavailable, "the node stood still for over %v; what was sent meanwhile was not taken", standstill)
