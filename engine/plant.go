package engine

// Bugs that the fault laboratory (bench/lab) must find: a build with the tag plant has
// the one that Planted names, others have none, and the compiler leaves out what asks for
// them.
const (
	PlantStaleRead    = "stale-read"    // reads do not ask whether the node still leads
	PlantTokenReuse   = "token-reuse"   // a start forgets the last tokens
	PlantRestoreReuse = "restore-reuse" // a restore does not raise tokens and fences
	PlantExpiredOwner = "expired-owner" // an owner goes on for seconds with a lease that is over
	PlantLostWaiter   = "lost-waiter"   // the first in the queue is forgotten when a leader changes
	PlantClockStep    = "clock-step"    // leases follow the time of day
	PlantSlowClock    = "slow-clock"    // what an entry is under way does not count for leases
	PlantWalkBelow    = "walk-below"    // a write looks at all that is held below it
)

// plantedLag is how long an expired owner goes on, ms.
const plantedLag = 6000
