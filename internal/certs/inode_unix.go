//go:build unix

package certs

import (
	"io/fs"
	"syscall"
)

// inode tells a file from another one of the same name that took its place.
func inode(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Ino) //nolint:unconvert // its type differs between systems
	}
	return 0
}
