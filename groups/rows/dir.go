package rows

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
