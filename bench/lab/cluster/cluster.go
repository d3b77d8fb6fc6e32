// Package cluster runs the clusters of the fault laboratory: real processes on loopback
// (Processes), or nodes in this process on disks in memory (Nodes), with everything that
// can be done to them.
package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/history"
	"github.com/pathlockd/pathlockd/bench/session"
	"github.com/pathlockd/pathlockd/wire"
)

// Ability is something that can be done to a cluster.
type Ability uint16

// Abilities.
const (
	Kill       Ability = 1 << iota // SIGKILL; in this process: power loss
	Terminate                      // SIGTERM, and a start
	Pause                          // SIGSTOP, and SIGCONT
	Partition                      // links between nodes lose, delay, repeat, reorder, cut
	StepClock                      // the time of day jumps
	FullDisk                       // there is no room
	FailDisk                       // a sync fails
	Compare                        // replicas have digests
	Administer                     // operators' requests
	Grow                           // nodes join, and go for good
	Refound                        // another cluster is founded with a backup
	Configure                      // a node gets other settings
)

// Cluster is a number of nodes. Its methods are for one goroutine, but for Dial and Nodes,
// which any may call.
type Cluster interface {
	// Nodes is how many there are: they have the numbers below it, which change when one
	// goes for good.
	Nodes() int
	// NodeID is the name of a node, which never changes and never comes back.
	NodeID(node int) string
	Can(Ability) bool
	// Start starts a node that is down, and returns when it serves.
	Start(ctx context.Context, node int) error
	// Configure gives a node that is down a max_queued_paths_per_group of its own.
	Configure(node, queued int)
	// Kill ends a node at once.
	Kill(node int) error
	// Terminate asks a node to drain and to end, and waits.
	Terminate(ctx context.Context, node int) error
	// Pause stops a node until Resume, which is to come after so long.
	Pause(node int, lasts time.Duration) error
	Resume(node int) error
	// Between sets what happens to what one node sends another, one way.
	Between(from, to int, w NetworkFault)
	// HealNetwork ends all network faults.
	HealNetwork()
	// Step makes the time of day of a node jump.
	Step(node int, by time.Duration)
	// Fill leaves a node's disk without room, until Empty. What other nodes it is full for,
	// too, the cluster says.
	Fill(node int) error
	Empty(node int) error
	// BreakDisk fails the node's next sync. The node stops itself; Start repairs the disk.
	BreakDisk(node int) error
	// Replace kills a node and empties its disk; Start lets it join again.
	Replace(node int) error
	// Join starts a node that there was not, with an empty disk, and returns when it serves.
	Join(ctx context.Context) error
	// Forget takes a node that is down out of the number, with its disk.
	Forget(node int)
	// Restore makes a cluster of the same nodes out of a backup, once all are down: one is
	// what the backup founds, the others have empty disks.
	Restore(ctx context.Context, from string, node int) error
	// Ready waits until every node serves.
	Ready(ctx context.Context) error
	// Leaders is the node that leads each log, as a node that is up sees it, -1 where
	// none does.
	Leaders(ctx context.Context) []int
	// Dial connects a session to a node.
	Dial(ctx context.Context, node int, s *session.Session) (Conn, error)
	// Digests is what the replicas look like once they stand still.
	Digests() []history.Digest
	// Log is the last that a node said.
	Log(node int) string
	Close()
}

// NetworkFault is what happens between two nodes.
type NetworkFault struct {
	Block                       bool
	Drop, Cut, Duplicate, Delay float64 // chances
	DelayMin, DelayMax          time.Duration
}

// Conn is one connection of a session, with one request under way at a time.
type Conn interface {
	// Ask sends a request under an id and waits for the answer; placed is told the
	// token once when an open call has its place. An error says that the connection is of no use any more
	// and the outcome not known.
	Ask(ctx context.Context, id uint64, req *wire.Request, placed func(token int64)) (*wire.Result, error)
	// Hear has an ear told, from within Ask, of what the connection's subscriptions hear.
	Hear(session.Ear)
	Close()
}

// ErrDown says that a node is not up.
var ErrDown = errors.New("the node is down")

// errCannot is the answer to what an implementation cannot do.
var errCannot = errors.New("this cluster cannot do that")
