package datadir

import (
	"sync/atomic"

	"github.com/pathlockd/pathlockd/groups/rows"
)

// Which format this node writes. rows.OldestFormat and rows.NewestFormat say what this
// build reads and can write; that of the others of the cluster, those who are away and
// not removed too, is what each told last, by gossip (peers.json keeps it). A format goes
// up in two steps, each of them for good:
//
//   - It is in use here, once every known node has read it for the stability window. That
//     is written into identity.json, so that an older build refuses the directory, and
//     told as the lowest format that this node works with: links and gossip refuse
//     nodes that do not read it.
//   - It is written, once every known node has it in use. So nothing of a format gets to a
//     node before its directory says so.
//
// Who connects to a node that has a newer format in use has it in use at once
// (link.Config.Raise): a node that joined, or was away.
//
// Entries and snapshots say their format in their first byte. Frames between nodes have
// none: a build that changes what is in one writes it by Formats.Written, as it does entries.

// Formats is what a node has in use and writes. Both are read for each entry or hello
// and only grow.
type Formats struct {
	inUse   atomic.Uint32
	writing atomic.Uint32
}

// Begin takes over what a data directory says.
func (f *Formats) Begin(inUse uint32) {
	f.inUse.Store(inUse)
	f.writing.Store(rows.OldestFormat)
}

// Use takes note that a format is in use from now on.
func (f *Formats) Use(format uint32) { f.inUse.Store(format) }

// InUse is the format that is in use.
func (f *Formats) InUse() uint32 { return f.inUse.Load() }

// Written is the format to write in.
func (f *Formats) Written() uint32 { return f.writing.Load() }

// Own is what this node works with.
func (f *Formats) Own() [2]uint32 { return [2]uint32{f.InUse(), rows.NewestFormat} }

// Write has the node write what it and all others have in use, and says whether that is
// news. It is called by one goroutine at a time.
func (f *Formats) Write(others [][2]uint32) bool {
	lowest, _ := Agreed(f.Own(), others)
	if lowest <= f.Written() {
		return false
	}
	f.writing.Store(lowest)
	return true
}

// Agreed answers the newest format that all nodes have in use, and the newest that all
// of them read.
func Agreed(own [2]uint32, others [][2]uint32) (inUse, read uint32) {
	inUse, read = own[0], own[1]
	for _, o := range others {
		if o[1] == 0 {
			o = [2]uint32{rows.UntoldFormat, rows.UntoldFormat}
		}
		inUse, read = min(inUse, o[0]), min(read, o[1])
	}
	return inUse, read
}
