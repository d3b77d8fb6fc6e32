// Package history is what a run of the fault laboratory saw: every operation with
// its times, every write to a resource, every fault. It can be kept in a file and
// judged again.
package history

import (
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// Forever is the end of what has not ended.
const Forever = time.Duration(1<<63 - 1)

// Kind is what an operation does.
type Kind uint8

// Kinds of operation.
const (
	Acquire Kind = iota
	Release      // of all the owner's paths
	Clear        // of its place in the queue too: everything the owner has
	Renew
	Assert // that Token is the owner's on all its paths
	Look   // at one path
	SetPolicy
	// Restored is the namespace as it was in a backup, and goes on in a new cluster. Nobody
	// asks for it: who judges a history puts it in (package check).
	Restored
)

var kindNames = [...]string{"acquire", "release", "clear", "renew", "assert", "look", "set policy", "restored"}

func (k Kind) String() string { return kindNames[k] }

// Outcome is how much is known of what became of an operation.
type Outcome uint8

// Outcomes.
const (
	Unknown  Outcome = iota // it may be carried out at any time after its call, once, or never
	Answered                // it was carried out between its call and its return
	Refused                 // it surely was not carried out
)

var outcomeNames = [...]string{"unknown", "answered", "refused"}

func (o Outcome) String() string { return outcomeNames[o] }

// Op is one operation as its client saw it. Times are since the start of the run, by
// one monotonic clock. An owner asks for one thing at a time, and in a namespace always for
// the same paths in the same mode; one that has an unknown acquire behind it asks for
// nothing more there but to be cleared. What ends everything that an owner has is an
// operation in each of its namespaces.
type Op struct {
	Client int `json:"client"`
	Node   int `json:"node"` // that it was asked of last
	// Era is the cluster that it was asked of, and no other: it grows with each restore.
	Era int `json:"era,omitempty"`

	Kind      Kind           `json:"kind"`
	Owner     string         `json:"owner,omitempty"` // of Clear: whose, whoever asked
	Namespace string         `json:"namespace"`
	Paths     []string       `json:"paths,omitempty"`
	Mode      wire.Mode      `json:"mode,omitempty"`
	Permits   uint32         `json:"permits,omitempty"` // above 0: a semaphore
	TTL       time.Duration  `json:"ttl,omitempty"`
	QueueTTL  time.Duration  `json:"queueTTL,omitempty"`
	NoQueue   bool           `json:"noQueue,omitempty"` // an acquire that does not wait
	Open      bool           `json:"open,omitempty"`    // one that waits in an open call
	Asked     int64          `json:"asked,omitempty"`   // the token that Assert says
	Algorithm wire.Algorithm `json:"algorithm,omitempty"`

	Call    time.Duration `json:"call"`
	Return  time.Duration `json:"return"`
	Outcome Outcome       `json:"outcome"`
	Asks    int           `json:"asks,omitempty"` // of an open call: how often a node was asked
	Code    wire.Code     `json:"code,omitempty"`

	// The answer.
	Status  wire.Status `json:"status,omitempty"`
	Reason  wire.Reason `json:"reason,omitempty"`
	Blocker string      `json:"blocker,omitempty"` // owner that is in the way
	At      string      `json:"at,omitempty"`      // path where
	Token   int64       `json:"token,omitempty"`   // of Look: the path's fence

	// Of an open call: when it was told the place that it has, 0 if it was not.
	Placed time.Duration `json:"placed,omitempty"`
	// How often it had been asked when its client last closed the connection that it waited on, 0 if never.
	left int

	// Of Look.
	Holders []Holder `json:"holders,omitempty"`
	Waiters []string `json:"waiters,omitempty"` // in order
}

// Holder is an owner that holds the path that was looked at.
type Holder struct {
	Owner string    `json:"owner"`
	Mode  wire.Mode `json:"mode,omitempty"`
	Token int64     `json:"token,omitempty"`
}

// OK says that an acquire, renewal or assertion was answered with success.
func (op *Op) OK() bool { return op.Outcome == Answered && op.Status == wire.StatusOK }

// Queued says that an acquire was told to wait.
func (op *Op) Queued() bool {
	return op.Kind == Acquire && op.Outcome == Answered && op.Status == wire.StatusQueued
}

// Fenced says that what the operation asks for comes with a token.
func (op *Op) Fenced() bool { return op.Mode == wire.ModeWrite && op.Permits == 0 }

// Access is one step of a client at a resource that checks tokens: it reads a
// version, and later writes the next one.
type Access struct {
	Path     string        `json:"path"`
	Owner    string        `json:"owner"`
	Token    int64         `json:"token"`
	Time     time.Duration `json:"time"`
	Write    bool          `json:"write,omitempty"`
	Base     uint64        `json:"base,omitempty"`    // of a write: the version it was worked out from
	Version  uint64        `json:"version,omitempty"` // of the resource afterwards
	Accepted bool          `json:"accepted,omitempty"`
	Seen     int64         `json:"seen,omitempty"` // highest token the resource had seen before
}

// Fault is something that was done to the cluster, and the time until it was healed and
// every node served again.
type Fault struct {
	Kind string        `json:"kind"`
	What string        `json:"what,omitempty"`
	From time.Duration `json:"from"`
	To   time.Duration `json:"to"`
	// Serving says that the cluster had leaders all the time: clocks may be expected
	// to run.
	Serving bool `json:"serving,omitempty"`
}

// Restore is a cluster that was abandoned, and another one that was founded with a backup
// of it. What was acknowledged after the backup is gone.
type Restore struct {
	// The backup's images were taken between the two, each at an instant of its own.
	SaveFrom time.Duration `json:"saveFrom"`
	SaveTo   time.Duration `json:"saveTo"`
	// Abandoned is when the last node of the old cluster was killed, and Began when the new
	// one was made: nobody asked it anything before.
	Abandoned time.Duration `json:"abandoned"`
	Began     time.Duration `json:"began"`
}

// Digest is what one node's replica of a log looked like.
type Digest struct {
	Node  int    `json:"node"`
	Log   uint64 `json:"log"`
	Index uint64 `json:"index"`
	Sum   uint64 `json:"sum"`
}

// History is everything that was seen.
type History struct {
	Ops      []Op     `json:"ops"`
	Accesses []Access `json:"accesses"`
	Faults   []Fault  `json:"faults"`
	// Restores end an era of operations each, in order.
	Restores []Restore `json:"restores,omitempty"`
	Digests  []Digest  `json:"digests"`
	Ears     []Ear     `json:"ears,omitempty"`
	Costs    []Cost    `json:"costs,omitempty"`
	// Stuck tells of who waited in vain after all faults were healed.
	Stuck []string `json:"stuck"`
	// Settled is when the last fault was healed and every client was told to end what
	// it had begun, 0 when the run was cut short.
	Settled time.Duration `json:"settled"`
	// End is when the last client was given up on.
	End time.Duration `json:"end"`
}

// OKThenLost says that an acquire was answered LOST: it was carried out and repeated, and
// by then its lock was gone.
func (op *Op) OKThenLost() bool {
	return op.Kind == Acquire && op.Outcome == Answered && op.Status == wire.StatusLost
}
