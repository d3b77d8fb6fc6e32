package groups

import "time"

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

func newSystemClock() Clock { return systemClock{time.Now()} }

func (c systemClock) Mono() time.Duration { return time.Since(c.start) }
func (c systemClock) Wall() time.Time     { return time.Now() }

// maxStep is how far one entry may move a log's lease clock: no stamp, however
// wrong, ends a lease by more than this too early.
const maxStep = 2 * time.Second

// leaseClock is the time of one log: it is in the log, so that it survives
// leaders and stands still while there is none (design.md section 3).
type leaseClock struct {
	now       int64         // ms, as of the last entry applied
	appliedAt time.Duration // Mono when this node applied it
}

// advance is the one instant of an entry with a stamp.
func (c *leaseClock) advance(stamp int64, mono time.Duration) int64 {
	c.now = max(c.now, min(stamp, c.now+maxStep.Milliseconds()))
	c.appliedAt = mono
	return c.now
}

// stamp is the time to propose an entry with: what was applied last, and what the
// monotonic clock has counted since, as far as one entry may move the clock. After a
// long silence several entries are in flight before the first is applied; if they
// carried the whole of it, the second would take from the leases of the first what the
// first could not.
func (c *leaseClock) stamp(mono time.Duration) int64 {
	return c.now + min(mono-c.appliedAt, maxStep).Milliseconds()
}
