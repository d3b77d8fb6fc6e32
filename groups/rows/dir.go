package rows

import "github.com/zeebo/xxh3"

// Names in a data directory.
const (
	// IdentityFile says who the node is.
	IdentityFile = "identity.json"
	// StateDir is the database.
	StateDir = "state"
	// OwnerFile, in StateDir, has the raft host id of the node whose database it is.
	OwnerFile = "owner"
	// RestoringFile is there while a restore writes the directory, and stays if it
	// was interrupted: then nothing in the directory is of any use.
	RestoringFile = "restore-not-finished"
)

// EarlierStarts is how many starts are counted for a node before those on its data directory, by its raft host id. Nobody
// knows how many there were on a directory that it lost, or in a cluster that a backup is of: so it is a number that
// another one hardly has.
func EarlierStarts(host string) uint64 { return xxh3.HashString(host) >> 32 }
