package datadir

import (
	"errors"
	"os"
	"strings"
	"syscall"
)

// WriteFileSync writes a file, anew if it is there, and returns when its bytes are durable; its name is when SyncDir of
// its directory has returned.
func WriteFileSync(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

// SyncDir makes durable what was created, renamed or removed in a directory.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// FullDisk reports whether something failed for want of room on a disk.
func FullDisk(err error) bool {
	for _, full := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		if errors.Is(err, full) || strings.Contains(err.Error(), full.Error()) { // the log's library tells it as a text
			return true
		}
	}
	return false
}

// FreeBytes is how much a process without privileges may still write to the file system that a directory is on.
func FreeBytes(dir string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}
