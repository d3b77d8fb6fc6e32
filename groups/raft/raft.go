package raft

import (
	"context"
	"errors"
	"time"

	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/replica"
)

// MaxAwaited is how many answers Log.Await can wait for at once.
const MaxAwaited = 3

// Host is replication for all logs of a node.
type Host interface {
	// Log is how one log is spoken to, whether this node has a replica of it or not.
	Log(shard uint64) Log
	// Replicas lists the replicas that run here.
	Replicas() []ReplicaInfo
	// Campaign has a replica of this node stand for election now.
	Campaign(shard, replica uint64)
	// StepDown has a replica of this node give up a log that it leads in a term.
	StepDown(shard, replica, term uint64)
	// Close ends it. Nothing is applied after it has returned.
	Close()
}

// Log is one replicated log.
type Log interface {
	// Start runs this node's replica of the log, which applies to m. It tells m to open
	// itself, and from then on applies entries to it, one goroutine at a time.
	Start(s datadir.Replica, m *replica.Machine) error
	// Stop stops the replica; m.Closed tells when raft has let go of it.
	Stop(replica uint64) error
	// Remove deletes what raft keeps of a replica that was stopped.
	Remove(ctx context.Context, replica uint64) error

	// Propose hands an entry over, of which it keeps a copy. It does not block. ErrBusy is
	// backpressure: nothing was taken.
	Propose(entry []byte, within time.Duration) (Pending, error)
	// ReadIndex asks for an index; once answered, this node's replica has applied up to
	// it. ErrNoReplica: there is none here.
	ReadIndex(within time.Duration) (Pending, error)
	// Await waits until one of under, of which there are MaxAwaited at most, is answered, at most d, or until wake or
	// stop can be received from, and receives from wake.
	Await(d time.Duration, wake, stop <-chan struct{}, under ...Pending)

	// Snapshot has raft take note of the state on disk and keep only so many entries before
	// it. It waits until that is done, and reports whether raft took it on.
	Snapshot(keep uint64, within time.Duration) bool
	// Bounds are the first and the last index of the entries that are kept here, and who
	// the members are as of the last snapshot.
	Bounds() (first, last uint64, m Membership, err error)

	// Members asks who is in the log, linearizably.
	Members(ctx context.Context) (*Membership, error)
	// AddLearner, Promote and Expel change who is in the log, if nothing has changed since
	// the version given.
	AddLearner(ctx context.Context, replica uint64, host string, version uint64) error
	Promote(ctx context.Context, replica uint64, host string, version uint64) error
	Expel(ctx context.Context, replica, version uint64) error
}

// Pending is a proposal or a read index that was asked for.
type Pending interface {
	// Answered reports whether raft has answered, and whether it did what it was asked.
	// Once it says so it goes on saying the same. It does not block.
	Answered() (done, ok bool)
	// Release gives it back; it is not used after that.
	Release()
}

// Membership is who is in a log, by replica id.
type Membership struct {
	Version    uint64 // of the last change
	Nodes      map[uint64]string
	NonVotings map[uint64]string
	Removed    map[uint64]struct{}
}

// ReplicaInfo is a replica that runs on this node.
type ReplicaInfo struct {
	Shard   uint64
	Replica uint64
	Pending bool // it is not loaded yet
	Learner bool
	Voters  map[uint64]string
}

var (
	// ErrBusy says that raft takes nothing now.
	ErrBusy = errors.New("raft is busy")
	// ErrNoReplica says that there is no replica of the log here.
	ErrNoReplica = errors.New("no replica of the log runs here")
)
