package dragon

import (
	"syscall"

	gvfs "github.com/lni/vfs"
)

// dataSync is fdatasync where the file is one of the operating system's.
func dataSync(f gvfs.File) error {
	fd, ok := f.(interface{ Fd() uintptr })
	if !ok {
		return f.Sync()
	}
	for {
		if err := syscall.Fdatasync(int(fd.Fd())); err != syscall.EINTR {
			return err
		}
	}
}
