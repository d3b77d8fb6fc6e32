package wire

// The enums of contract.md section 1. Numbers are fixed.

// Mode is how a path is locked.
type Mode uint8

// Modes. A semaphore permit is asked for, released and listed as ModeWrite.
const (
	ModeWrite Mode = 0
	ModeRead  Mode = 1
)

var modeNames = [...]string{"WRITE", "READ"}

func (m Mode) String() string { return enumName(modeNames[:], uint64(m), "MODE") }

// LockState says whether a lock is asked for, or asked to be still there.
type LockState uint8

// Lock states.
const (
	StateNew  LockState = 0 // take it
	StateHeld LockState = 1 // it is ours: check that it still is
)

var stateNames = [...]string{"NEW", "HELD"}

func (s LockState) String() string { return enumName(stateNames[:], uint64(s), "STATE") }

// Algorithm is the set of rules a namespace locks by (contract.md section 5).
type Algorithm uint8

// Algorithms.
const (
	RecursiveRW    Algorithm = 0 // shared reads of one path, writes own the subtree
	PointRW        Algorithm = 1 // shared reads and writes of exactly one path
	RecursiveWrite Algorithm = 2 // writes own the subtree, no reads
	PointWrite     Algorithm = 3 // writes of exactly one path, no reads
	Semaphore      Algorithm = 4 // up to `permits` holders of exactly one path
)

var algorithmNames = [...]string{"recursive_rw", "point_rw", "recursive_write", "point_write", "semaphore"}

// String is the algorithm's name as configuration and the command line spell it.
func (a Algorithm) String() string { return enumName(algorithmNames[:], uint64(a), "algorithm") }

// ParseAlgorithm is the inverse of Algorithm.String.
func ParseAlgorithm(s string) (Algorithm, bool) {
	for i, n := range algorithmNames {
		if n == s {
			return Algorithm(i), true
		}
	}
	return 0, false
}

// AlgorithmNames lists every algorithm's name, in the order of their numbers.
func AlgorithmNames() []string { return algorithmNames[:] }

// Recursive says that a write covers the path and everything below it.
func (a Algorithm) Recursive() bool { return a == RecursiveRW || a == RecursiveWrite }

// AllowsReads says that the namespace takes read locks.
func (a Algorithm) AllowsReads() bool { return a == RecursiveRW || a == PointRW }

// Reason says why a request did not get what it asked for.
type Reason uint8

// Reasons (contract.md section 1, ReasonCode).
const (
	ReasonUnspecified           Reason = 0
	ReasonAncestorLocked        Reason = 1
	ReasonWriteLocked           Reason = 2
	ReasonReadLocked            Reason = 3
	ReasonDescendantWriteLocked Reason = 4
	ReasonDescendantReadLocked  Reason = 5
	ReasonReadLocksDisabled     Reason = 6
	ReasonStaleFencingToken     Reason = 7
	ReasonInvalidPermits        Reason = 8
	ReasonSemaphoreFull         Reason = 9
	ReasonMissingSemaphore      Reason = 10
	ReasonMissingWrite          Reason = 11
	ReasonMissingRead           Reason = 12
	ReasonMissingFence          Reason = 13
	ReasonMissingAlive          Reason = 14
	ReasonMissingOwnerSet       Reason = 15
	ReasonEmptyOwnerSet         Reason = 16
	ReasonQueued                Reason = 17
	ReasonStaleOwner            Reason = 18
)

var reasonNames = [...]string{
	"UNSPECIFIED", "ANCESTOR_LOCKED", "WRITE_LOCKED", "READ_LOCKED", "DESCENDANT_WRITE_LOCKED",
	"DESCENDANT_READ_LOCKED", "READ_LOCKS_DISABLED", "STALE_FENCING_TOKEN", "INVALID_PERMITS",
	"SEMAPHORE_FULL", "MISSING_SEMAPHORE", "MISSING_WRITE", "MISSING_READ", "MISSING_FENCE",
	"MISSING_ALIVE", "MISSING_OWNER_SET", "EMPTY_OWNER_SET", "QUEUED", "STALE_OWNER",
}

func (r Reason) String() string { return enumName(reasonNames[:], uint64(r), "REASON") }

// Blocking says that r names something another owner holds, so that a wait edge
// may carry it (contract.md section 2: codes 1–5 and 9).
func (r Reason) Blocking() bool {
	return r >= ReasonAncestorLocked && r <= ReasonDescendantReadLocked || r == ReasonSemaphoreFull
}

// Status is the outcome of an acquire, a renew or an assertion.
type Status uint8

// Outcomes of Acquire (all four) and of Renew (OK, and 1 for lost) and
// AssertFencing (OK, and 1 for fail), as the contract numbers them.
const (
	StatusOK       Status = 0
	StatusConflict Status = 1
	StatusLost     Status = 2
	StatusQueued   Status = 3

	RenewLost  Status = 1
	AssertFail Status = 1
)

var statusNames = [...]string{"OK", "CONFLICT", "LOST", "QUEUED"}

// String names an acquire's status.
func (s Status) String() string { return enumName(statusNames[:], uint64(s), "STATUS") }

// CycleKind is what DetectCycle found.
type CycleKind uint8

// Cycle kinds.
const (
	CycleNone      CycleKind = 0
	CycleFound     CycleKind = 1
	CycleTruncated CycleKind = 2
)

var cycleNames = [...]string{"NONE", "FOUND", "TRUNCATED"}

func (k CycleKind) String() string { return enumName(cycleNames[:], uint64(k), "CYCLE") }

// EventKind is what happened to an owner. 1–3 are the contract's; what is above
// goes only to subscribers that asked for it.
type EventKind uint8

// Event kinds.
const (
	// somebody took its locks away, or ended its wait for a path: ForceRelease, or a policy change
	EventKilled  EventKind = 1
	EventRevoke  EventKind = 2 // somebody asks it to let go
	EventGrant   EventKind = 3 // a queued request was granted
	EventExpired EventKind = 4 // its lease in a namespace ran out
)

var eventNames = [...]string{"UNSPECIFIED", "KILLED", "REVOKE", "GRANT", "EXPIRED"}

func (k EventKind) String() string { return enumName(eventNames[:], uint64(k), "EVENT") }

// DefaultEvents is the set of kinds a subscriber gets that named none: those of
// the contract, bit 1<<kind each.
const DefaultEvents uint64 = 1<<EventKilled | 1<<EventRevoke | 1<<EventGrant

// AllEvents is the set of every kind there is.
const AllEvents uint64 = DefaultEvents | 1<<EventExpired
