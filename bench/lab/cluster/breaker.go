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
	return [...]string{"nothing", "a sync of the raft log", "a write of the raft log", "a sync of the state", "a write of the state"}[b]
}

// breaker makes one operation of a node's disks fail.
type breaker struct{ next atomic.Uint32 }

func (b *breaker) arm(what broken) { b.next.Store(uint32(what)) }

func (b *breaker) fails(what broken, how error) error {
	if b.next.CompareAndSwap(uint32(what), uint32(nothing)) {
		return how
	}
	return nil
}

// raftBreaker is the breaker of the raft log's disk.
type raftBreaker struct{ *breaker }

// MaybeError implements gvfs.Injector.
func (b raftBreaker) MaybeError(op gvfs.Op) error {
	switch op {
	case gvfs.OpSync:
		return b.fails(raftSync, syscall.EIO)
	case gvfs.OpWrite:
		return b.fails(raftWrite, syscall.ENOSPC)
	}
	return nil
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
