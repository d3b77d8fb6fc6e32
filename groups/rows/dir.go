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

// Remedy says what to do about a part of a data directory that is not what it should be.
const Remedy = "put back what was there; or, if other nodes hold the logs, empty all of data_dir and start with " +
	"seed_nodes, so that the node joins anew (docs/operations/disk-replacement.md); or restore a backup"

// EarlierStarts is how many starts are counted for a node before those on its data directory, by its raft host id.
// Nobody knows how many there were on a directory that it lost, or in a cluster that a backup is of: so it is a number
// that another one hardly has.
func EarlierStarts(host string) uint64 { return xxh3.HashString(host) >> 32 }
