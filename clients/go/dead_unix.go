//go:build unix

package pathlockd

import (
	"errors"
	"io/fs"
	"syscall"
)

// isDead says that nothing listens at an address: the process that did is gone.
func isDead(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}
