package place

import (
	"fmt"
)

// MaxLag is how many entries a replica may be behind the leader to count as caught
// up.
const MaxLag = 1000

// Log is one log as its leader sees it.
type Log struct {
	ID       uint64
	Version  uint64 // of the membership: raft's id of the last change
	Self     uint64 // the leader's replica
	Applied  uint64 // by the leader, when it asked the others for theirs
	Replicas []Replica
	Removed  []uint64 // replica ids that were members once
}

// Replica is a member of a log.
type Replica struct {
	ID      uint64
	Node    string
	Disk    string // data directory it was made on: its target in raft
	Voting  bool
	Applied uint64 // as last reported; 0: not reported
	// Stuck says that it has no vote, is to get one, and has made no headway for so long
	// that it is to be made anew.
	Stuck bool
}

// Kind is what to do.
type Kind uint8

// A log that is Settled is as it should be. One that has to Wait is not, and
// nothing can be done now.
const (
	Settled Kind = iota
	Wait
	Add      // a non-voting replica
	Promote  // a non-voting replica to a voter
	Remove   // a replica
	Transfer // the leadership to a replica
)

var kindNames = [...]string{"settled", "wait", "add", "promote", "remove", "transfer"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Urgency orders the steps of different logs, the lowest first.
type Urgency uint8

// From what people wait for to what only evens out.
const (
	Finish  Urgency = iota // leave an even number of voters
	Empty                  // a leadership or a replica leaves a node that is drained, or whose disk is nearly full
	Repair                 // a voter is lost, or there are fewer than there should be
	Spread                 // replicas move to where they belong
	Balance                // a leadership moves to where it belongs
)

// Step is the next change of a log. The log's Version goes into raft's change, which
// refuses any other: so a step that is late, or carried out twice, does nothing.
type Step struct {
	Kind    Kind
	Urgency Urgency
	Log     uint64
	Version uint64
	Replica uint64 // to add, promote, remove, or hand the leadership to
	Node    string // of that replica
	Disk    string // of that replica
	// Catching is what live replicas that should vote and do not yet have applied,
	// all together; it grows while they catch up. 0: there are none.
	Catching uint64
	Why      string // for people
}

func (s Step) String() string {
	if s.Kind <= Wait {
		return fmt.Sprintf("log %d: %s: %s", s.Log, s.Kind, s.Why)
	}
	return fmt.Sprintf("log %d: %s replica %d on %s: %s", s.Log, s.Kind, s.Replica, s.Node, s.Why)
}

// majority is how many of n voters decide.
func majority(n int) int { return n/2 + 1 }

// on says whether a replica was made on a disk.
func (l *Log) on(disk string) bool {
	for i := range l.Replicas {
		if l.Replicas[i].Disk == disk {
			return true
		}
	}
	return false
}

// freshID is a replica id that was never used in the log.
func (l *Log) freshID() uint64 {
	id := uint64(0)
	for _, r := range l.Replicas {
		id = max(id, r.ID)
	}
	for _, r := range l.Removed {
		id = max(id, r)
	}
	return id + 1
}
