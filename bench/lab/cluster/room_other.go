//go:build !linux

package cluster

// freeBytes is not known on this system, so disks are never filled.
func freeBytes(string) uint64 { return 0 }

// takeRoom cannot be done on this system.
func takeRoom(string, int64) error { return errCannot }
