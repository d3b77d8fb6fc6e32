//go:build unix

package pathlockd

import (
	"errors"
	"io"
	"io/fs"
	"syscall"
)

// isCut says that the peer, or its system, ended a connection.
func isCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// isDead says that nothing listens at an address: the process that did is gone.
func isDead(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}
