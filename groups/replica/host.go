package replica

import (
	"log/slog"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// Config is what a replica is made with.
type Config struct {
	Shard      uint64   // number of the log
	Replica    uint64   // raft's id of the replica
	Numbers    []uint16 // of the groups that live in the log
	Algorithm  wire.Algorithm
	Segments   int    // of a namespace
	NodeLimits Limits // limits that this node would state
	Folding    *FoldBounds
	Store      *Store
	Clock      Clock
	Logger     *slog.Logger
	Host       Host
	Hub        Audience
	Fail       func(error) // ends the process: the state can no longer be trusted to be what the log says
	NoEngine   bool        // commands are answered and not carried out, for measurements
	Observer   Observer    // nil, but in tests
}

// Host is the node as its replicas know it. None of it blocks. SystemChanged, PolicyWork, LookAround and LimitsDiffer
// are called with the replica held, between two entries or as its state is read back.
type Host interface {
	Opened(m *Machine)              // the state was read back
	CheckpointSoon()                // a checkpoint is due
	SystemChanged(s *engine.System) // routes may have changed
	PolicyWork()                    // a policy change may be ready to be carried out
	LookAround()                    // what operators want of nodes may have changed
	LimitsDiffer(names string)      // the log goes by other limits than this node's own
	ProcessMarks() string           // of the nodes that are known (rows.State)
	SnapshotFormat() uint32         // that every node reads
}

// Audience is who hears what happens in a log.
type Audience interface {
	Publish(log, index uint64, events []engine.Event, last bool)
	// TellFurther tells what an entry says of leases, of which some bytes were sent to other nodes already, and returns
	// how many now.
	TellFurther(log uint64, told []engine.Told, sent int) int
	// Missed tells that a snapshot took the place of entries.
	Missed(log, index uint64)
}

// Proposer is who proposes a log's entries on this node, and whose callers hear what became of them. Nothing of it
// blocks or calls back, and all of it is called between two entries, with the replica held but for Flush and Overtaken.
type Proposer interface {
	// Incarnation is of this process: leader epochs that have it are its own.
	Incarnation() uint64
	// Began is called when a leader epoch is applied, with the calls that are open in the log if it is this process's
	// own.
	Began(o LeaderEpoch, found *OpenCalls)
	// Applied is called before a batch of this process is carried out. It returns who asked for its commands, nil when
	// they were told something already.
	Applied(o LeaderEpoch, number uint64) Callers
	// Gap is called when a batch of this process was dropped, as the one before it did not come.
	Gap(term, number uint64)
	// Barrier is called before a batch of this process is carried out that counts whatever came before it.
	Barrier(o LeaderEpoch, number uint64)
	// Overtaken is called when a snapshot was installed, which is of a batch of a leader epoch.
	Overtaken(o LeaderEpoch, number uint64)
	// WaitOver is called with the answer to a call that waited.
	WaitOver(a *engine.Answer)
	// ChangeOver is called with what became of a policy change.
	ChangeOver(d *engine.Done)
	// Flush sends the answers that were given.
	Flush()
}

// Callers is who asked for the commands of a batch.
type Callers interface {
	Hears(i int) bool // whether anybody is told what becomes of the command
	Tell(i int, res *wire.Result)
}
