package groups

import (
	"context"
	"errors"
	"time"

	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/replica"
)

// The seam to raft: all that a node asks of it. dragonboat is one implementation
// (dragon.go); the simulation of the tests is another (sim_raft_test.go), which is why
// nothing but dragon.go may know how raft is done.
//
// What raft owes: entries that were applied by one replica are applied by all, in one
// order, and stay; a read index that was answered is at least that of every entry that was
// applied anywhere when it was asked for. What it does not owe, and nothing here may rely
// on: that a proposal is taken, that it is taken in the order of proposing, that its
// answer comes, or says what became of it, that who was told to lead still does.

// raft is replication for all logs of a node.
type raft interface {
	// log is how one log is spoken to, whether this node has a replica of it or not.
	log(shard uint64) raftLog
	// replicas lists the replicas that run here.
	replicas() []replicaInfo
	// campaign has a replica of this node stand for election now.
	campaign(shard, replica uint64)
	// stepDown has a replica of this node give up a log that it leads in a term.
	stepDown(shard, replica, term uint64)
	// close ends it. Nothing is applied after it has returned.
	close()
}

// raftLog is one replicated log.
type raftLog interface {
	// start runs this node's replica of the log, which applies to m. It tells m to open
	// itself, and from then on applies entries to it, one goroutine at a time.
	start(s datadir.Replica, m *replica.Machine) error
	// stop stops the replica; m.closed tells when raft has let go of it.
	stop(replica uint64) error
	// remove deletes what raft keeps of a replica that was stopped.
	remove(ctx context.Context, replica uint64) error

	// propose hands an entry over, of which it keeps a copy. It does not block. errBusy is
	// backpressure: nothing was taken.
	propose(entry []byte, within time.Duration) (pending, error)
	// readIndex asks for an index; once answered, this node's replica has applied up to
	// it. errNoReplica: there is none here.
	readIndex(within time.Duration) (pending, error)
	// await waits until one of under is answered, at most d, or until wake or stop can be
	// received from, and receives from wake.
	await(d time.Duration, wake, stop <-chan struct{}, under ...pending)

	// snapshot has raft take note of the state on disk and keep only so many entries before
	// it. It waits until that is done, and reports whether raft took it on.
	snapshot(keep uint64, within time.Duration) bool
	// bounds are the first and the last index of the entries that are kept here, and who
	// the members are as of the last snapshot.
	bounds() (first, last uint64, m membership, err error)

	// members asks who is in the log, linearizably.
	members(ctx context.Context) (*membership, error)
	// addLearner, promote and expel change who is in the log, if nothing has changed since
	// the version given.
	addLearner(ctx context.Context, replica uint64, host string, version uint64) error
	promote(ctx context.Context, replica uint64, host string, version uint64) error
	expel(ctx context.Context, replica, version uint64) error
}

// pending is a proposal or a read index that was asked for.
type pending interface {
	// answered reports whether raft has answered, and whether it did what it was asked.
	// Once it says so it goes on saying the same. It does not block.
	answered() (done, ok bool)
	// release gives it back; it is not used after that.
	release()
}

// membership is who is in a log, by replica id.
type membership struct {
	Version    uint64 // of the last change
	Nodes      map[uint64]string
	NonVotings map[uint64]string
	Removed    map[uint64]struct{}
}

// replicaInfo is a replica that runs on this node.
type replicaInfo struct {
	shard   uint64
	replica uint64
	pending bool // it is not loaded yet
	learner bool
	voters  map[uint64]string
}

var (
	// errBusy says that raft takes nothing now.
	errBusy = errors.New("raft is busy")
	// errNoReplica says that there is no replica of the log here.
	errNoReplica = errors.New("no replica of the log runs here")
)
