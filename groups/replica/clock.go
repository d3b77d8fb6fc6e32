package replica

import (
	"cmp"
	"time"

	"github.com/pathlockd/pathlockd/engine"
)

// Clock is where time comes from. Leases hang on Mono alone; Wall only names
// instants for people.
type Clock interface {
	// Mono is the time since some fixed moment, by a clock that never steps.
	Mono() time.Duration
	// Wall is the time of day.
	Wall() time.Time
}

// systemClock is the machine's own.
type systemClock struct{ start time.Time }

// NewSystemClock is the machine's clock.
func NewSystemClock() Clock { return systemClock{time.Now()} }

func (c systemClock) Mono() time.Duration { return time.Since(c.start) }
func (c systemClock) Wall() time.Time     { return time.Now() }

// MaxStep is how far one entry may move a log's lease clock: no stamp, however
// wrong, ends a lease by more than this too early.
const MaxStep = 2 * time.Second

// Cut is what a stamp may lack of the instant it was made at, ms (leaseClock.stamp).
const Cut = 1

// Still is the stamp of an entry with which no time goes on and nothing ends with time.
const Still = 0

// leaseClock is the time of one log: it is in the log, so that it survives
// leaders and stands still while there is none (design.md section 3).
type leaseClock struct {
	now int64         // ms, as of the last entry applied
	at  time.Duration // Mono when it was that
	// leaderEpoch is the one this node stamps under, by this clock.
	leaderEpoch LeaderEpoch
	last        time.Duration // Mono when the last entry was applied
	struck      time.Duration // what stamps have struck out since
	step        time.Duration // how far one entry may move it, 0: MaxStep
}

// newLeaseClock is a clock that was read back.
func newLeaseClock(now int64, mono time.Duration) leaseClock {
	return leaseClock{now: now, at: mono, last: mono}
}

// most is how far one entry may move it: what the log says (limits.go).
func (c *leaseClock) most() time.Duration { return cmp.Or(c.step, MaxStep) }

// advance is the one instant of an entry with a stamp, made under a leader epoch.
//
// An entry that this node stamped says when the clock showed what: what it took to come
// through raft has passed, and goes on counting. Were the clock set back to the entry's
// stamp as of now, each entry would cost the leases that time, and what a millisecond is
// cut off by: on a busy log no lease would end any more (decision 0016). Of a time in
// which nothing was applied no more than one step counts, whether anything was stamped in
// it or not.
//
// How long an entry of another node was under way, and how long that node's clock has
// shown what the entry says, is not known here, and does not count.
func (c *leaseClock) advance(o LeaderEpoch, stamp int64, mono time.Duration) int64 {
	own := o == c.leaderEpoch && engine.Planted != engine.PlantSlowClock
	if own {
		c.at += max(0, mono-c.last-c.most()-c.struck)
	}
	c.last, c.struck = mono, 0
	if to := min(stamp, c.now+c.most().Milliseconds()); to > c.now {
		c.at += time.Duration(to-c.now) * time.Millisecond
		c.now = to
	}
	if c.at = min(c.at, mono); !own {
		c.at = mono
	}
	return c.now
}

// stamp is the time to propose an entry with, under a leader epoch: what was applied last, and
// what the monotonic clock has counted since, as far as one entry may move the clock. What
// it has counted beyond that is struck out, else the next entries would make up for a
// silence or an outage. And as all entries in flight are stamped from the same applied
// one, all of them together move the clock no further than one may: the second does not take
// from the leases of the first what the first could not.
//
// Stamps are cut to whole milliseconds: cut is what one may lack of the instant it was made
// at, and the engine makes leases last that much longer.
func (c *leaseClock) stamp(o LeaderEpoch, mono time.Duration) int64 {
	c.leaderEpoch = o
	if more := mono - c.most() - c.at; more > 0 {
		c.at += more
		c.struck += more
	}
	return c.now + (mono - c.at).Milliseconds()
}
