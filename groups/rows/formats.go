package rows

import "fmt"

// All that nodes share, and all that outlives the process that wrote it, has one format:
// the entries of the logs, snapshots, the data directory, and the frames between nodes.
// When any of it changes in a way that an older build cannot read, the number grows by
// one. This build reads OldestFormat to NewestFormat; which of them it writes is decided
// by what the others of its cluster read (groups/datadir/formats.go).

// OldestFormat is the oldest format that this build reads and can write. It is at most
// one below the newest before: builds of neighbouring formats must be able to run
// together.
const OldestFormat uint32 = 1

// UntoldFormat is what a node works with that never said: builds of the first format did
// not write down what others work with.
const UntoldFormat uint32 = 1

// FormatsRead names the formats that this build reads.
func FormatsRead() string {
	if NewestFormat == OldestFormat {
		return fmt.Sprint(NewestFormat)
	}
	return fmt.Sprintf("%d to %d", OldestFormat, NewestFormat)
}

// CheckFormat says what is wrong with a format that something is in, and what to do.
func CheckFormat(format uint32) error {
	switch {
	case format > NewestFormat:
		return fmt.Errorf("format %d, this build reads %s: run a newer version", format, FormatsRead())
	case format < OldestFormat:
		return fmt.Errorf("format %d, this build reads %s: go through a version that reads both", format, FormatsRead())
	}
	return nil
}
