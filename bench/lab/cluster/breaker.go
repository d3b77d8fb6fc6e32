package cluster

import (
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	gvfs "github.com/lni/vfs"
)

// broken is what fails next on a node's disks.
type broken uint32

const (
	nothing   broken = iota
	raftSync         // of the raft log: an I/O error
	raftWrite        // no room for it
	stateSync        // of the state database: an I/O error
	stateWrite
	ways
)

func (b broken) String() string {
	return [...]string{"nothing", "a sync of the raft log", "a write of the raft log", "a sync of the state",
		"a write of the state"}[b]
}

// breaker makes one operation of a node's disks fail, and has them stand still while the
// node is paused.
type breaker struct {
	next  atomic.Uint32
	frost *frost
}

func (b *breaker) arm(what broken) { b.next.Store(uint32(what)) }

func (b *breaker) fails(what broken, how error) error {
	b.frost.still()
	if b.next.CompareAndSwap(uint32(what), uint32(nothing)) {
		return how
	}
	return nil
}

// raftBreaker is the raft log's disk, with the breaker in its files.
type raftBreaker struct {
	gvfs.FS
	b *breaker
}

func (r raftBreaker) wrap(f gvfs.File, err error) (gvfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &raftFile{f, r.b}, nil
}

// Create implements gvfs.FS.
func (r raftBreaker) Create(name string) (gvfs.File, error) { return r.wrap(r.FS.Create(name)) }

// OpenForAppend implements gvfs.FS.
func (r raftBreaker) OpenForAppend(name string) (gvfs.File, error) {
	return r.wrap(r.FS.OpenForAppend(name))
}

// ReuseForWrite implements gvfs.FS.
func (r raftBreaker) ReuseForWrite(oldname, newname string) (gvfs.File, error) {
	return r.wrap(r.FS.ReuseForWrite(oldname, newname))
}

// raftFile is one of its files.
type raftFile struct {
	gvfs.File
	b *breaker
}

// Write implements gvfs.File. What fails is written all the same, as a disk may have done: the node goes on in this
// process until it is killed, and its log's store takes a table that lacks some bytes for corrupt, which ends the
// process.
func (f *raftFile) Write(p []byte) (int, error) {
	err := f.b.fails(raftWrite, syscall.ENOSPC)
	n, wrote := f.File.Write(p)
	if err != nil {
		return 0, err
	}
	return n, wrote
}

// Sync implements gvfs.File.
func (f *raftFile) Sync() error {
	if err := f.b.fails(raftSync, syscall.EIO); err != nil {
		return err
	}
	return f.File.Sync()
}

// stateBreaker is the breaker of the state database's disk.
type stateBreaker struct{ *breaker }

func (stateBreaker) String() string { return "the fault laboratory's" }

// MaybeError implements errorfs.Injector.
func (b stateBreaker) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
		return b.fails(stateSync, syscall.EIO)
	case errorfs.OpFileWrite, errorfs.OpFileWriteAt:
		return b.fails(stateWrite, syscall.ENOSPC)
	}
	return nil
}
