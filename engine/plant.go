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

	// For the simulation (groups/sim_test.go).
	PlantNodeLimits   = "node-limits"   // a node applies by its own limits and not by those of the log
	PlantSessionRows  = "session-rows"  // sessions are not written to disk again once they are there
	PlantLateAnswers  = "late-answers"  // a wait that ended is remembered after all else of its entry
	PlantGivenUpRoot  = "given-up-root" // who takes a subtree over does not go on above its tokens
	PlantOutOfLine    = "out-of-line"   // what comes behind a request that is held back passes it
	PlantFoldedAway   = "folded-away"   // fences are deleted that no floor stands for
	PlantHeldForGood  = "held-for-good" // what is held back does not end with its time
	PlantUntied       = "untied"        // a repeat does not tie its lease to the connection that it came on
	PlantKeysStay     = "keys-stay"     // kept answers do not move with their paths
	PlantFalseLost    = "false-lost"    // a renewal does not ask whether its namespace moved
	PlantRevived      = "revived"       // a wait that is over goes on when it is asked again
	PlantForgotten    = "forgotten"     // a full session table forgets live sessions
	PlantPolledPlace  = "polled-place"  // a polled place stays when its owner is granted something else
	PlantLoosePermit  = "loose-permit"  // a semaphore counts one holder too few
	PlantAnyToken     = "any-token"     // an assertion does not look at the token
	PlantLateBound    = "late-bound"    // what a connection asked is sent on after its end
	PlantEarlyBind    = "early-bind"    // a bind does not wait for the acquires that were sent before it
	PlantAnyStride    = "any-stride"    // a caller's token may lead the others by any distance
	PlantOwnQueue     = "own-queue"     // who widens its holds waits behind who waits for them
	PlantInOneStep    = "in-one-step"   // all that ends with a connection ends in one step
	PlantNoGap        = "no-gap"        // who listens is not told of events that a snapshot passed over
	PlantBareRoot     = "bare-root"     // a namespace set on a bare handler has no effect below it
	PlantAttachedAnew = "attached-anew" // a wait that is attached again without a place is taken for a new one
	PlantShortMemory  = "short-memory"  // sessions are forgotten while copies of their requests are under way
	// what is asked for beside ends of waits begins at the time that stands for them
	PlantEndsUntimed = "ends-untimed"
)

// plantedLag is how long an expired owner goes on, ms.
const plantedLag = 6000
