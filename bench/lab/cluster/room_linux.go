package cluster

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// freeBytes is the room on a directory's disk, 0 when that is not known.
func freeBytes(dir string) uint64 {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0
	}
	return s.Bavail * uint64(s.Bsize)
}

// takeRoom makes a file that takes so much room.
func takeRoom(name string, n int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := syscall.Fallocate(int(f.Fd()), 0, 0, n); err != nil {
		return errors.Join(fmt.Errorf("fill the disk: %w", err), f.Close(), os.Remove(name))
	}
	return f.Close()
}
