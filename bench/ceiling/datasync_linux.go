package ceiling

import (
	"os"
	"syscall"
)

// datasync makes durable what was written to f.
func datasync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
