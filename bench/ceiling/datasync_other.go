//go:build !linux

package ceiling

import "os"

// datasync makes durable what was written to f.
func datasync(f *os.File) error { return f.Sync() }
