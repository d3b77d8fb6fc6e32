package engine

import "github.com/pathlockd/pathlockd/wire"

// Limits are the numbers that decide what becomes of a command. All replicas must go by the
// same ones, and configurations and builds differ: so they stand in the replicated log. Who
// begins a leader epoch states its own, and every replica applies by what was stated last.
type Limits struct {
	MaxQueued    int // paths waited for in a group: max_queued_paths_per_group
	MaxKept      int // answers kept for keyed requests in a group
	MaxEdges     int // wait edges in a group
	MaxFloors    int // moved subtrees of a group with a fence floor of their own
	MaxFolds     int // namespaces of a group with a folded floor of their own
	ReapBudget   int // holds, waiters and answers that end with time in one step, and in one entry of a log
	KeptMillis   int // how long the answer to a keyed request is kept
	RevokeMillis int // how long a revoke mark stays on a lease
	QueueMillis  int // how long a request waits that named no time
	OvertakeLook int // waiters looked at before State.overtakes assumes the worst
	DepartAtOnce int // leases seen to by the step that closes a connection

	// Of the system group.
	MaxRoots   int // namespaces with a policy
	MaxIntents int // policy changes under way
	MaxSysKept int // answers kept for keyed requests
	MaxMarks   int // nodes that operators want something of, those removed for good included
}

// Limits of a group's tables that no configuration key changes. Over one of them
// a request is refused with RESOURCE_EXHAUSTED and nothing is evicted.
const (
	DefaultMaxQueued  = 65_536
	DefaultMaxKept    = 262_144
	DefaultMaxEdges   = 65_536
	DefaultReapBudget = 200

	// KeptMillis is how long the answer to a keyed request is kept.
	KeptMillis = 300_000
	// RevokeMillis is how long a revoke mark stays on a lease.
	RevokeMillis = 300_000
	// maxFloors is how many moved subtrees keep a fence floor of their own; over it
	// floors are merged into one for the whole group, which is safe and less kind.
	maxFloors = 4096
	// maxFolds is how many namespaces of a group keep a folded floor of their own. Over it,
	// each handler gets one floor instead, and over so many handlers the group.
	maxFolds = 1024
	// overtakeLook is how many waiters are looked at, at most, before overtakes
	// assumes the worst; only waiters without a minted token are passed over.
	overtakeLook = 16
	// departAtOnce is how many leases the step sees to that closes a connection; later
	// steps see to the others.
	departAtOnce = 16
)

// Limits of the system group's tables.
const (
	MaxRoots   = 65_536
	MaxIntents = 1024
	MaxSysKept = DefaultMaxKept
	// MaxMarks is how many nodes operators may have asked something of at once, those
	// that were removed for good included. One more is refused.
	MaxMarks = 4096
)

// DefaultLimits are this build's, with the defaults of contract.md section 14.
func DefaultLimits() Limits {
	return Limits{
		MaxQueued: DefaultMaxQueued, MaxKept: DefaultMaxKept, MaxEdges: DefaultMaxEdges, MaxFloors: maxFloors,
		ReapBudget: DefaultReapBudget, KeptMillis: KeptMillis, RevokeMillis: RevokeMillis,
		QueueMillis: wire.DefaultQueueTTLMillis, OvertakeLook: overtakeLook, DepartAtOnce: departAtOnce,
		MaxFolds: maxFolds,
		MaxRoots: MaxRoots, MaxIntents: MaxIntents, MaxSysKept: MaxSysKept, MaxMarks: MaxMarks,
	}
}

// SetLimits has the state go by other limits from the next step on. What there is already
// more of than they allow stays.
func (s *State) SetLimits(l Limits) { s.cfg.Limits = l }

// SetLimits has the system state go by other limits from the next step on.
func (s *System) SetLimits(l Limits) { s.limits = l }
