package cluster

import (
	"errors"
	"syscall"
	"testing"

	gvfs "github.com/lni/vfs"
)

// TestAFailedWriteIsThere: what the raft log's disk fails to write is there all the same, until the power goes.
func TestAFailedWriteIsThere(t *testing.T) {
	b := breaker{frost: new(frost)}
	f, err := raftBreaker{gvfs.NewStrictMem(), &b}.Create("table")
	if err != nil {
		t.Fatal(err)
	}
	b.arm(raftWrite)
	if _, err := f.Write([]byte("lost")); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the write failed with %v", err)
	}
	if _, err := f.Write([]byte(" and found")); err != nil {
		t.Fatal(err)
	}
	if info, err := f.Stat(); err != nil || info.Size() != int64(len("lost and found")) {
		t.Errorf("the file has %v, %v", info, err)
	}
}
