//go:build unix

package tcp

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Waiting says that a connection is there for a listener to take. Of a listener that cannot tell one is.
func Waiting(l net.Listener) (waiting bool) {
	waiting = true
	with, ok := l.(syscall.Conn)
	if !ok {
		return waiting
	}
	if raw, err := with.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			look := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			n, err := unix.Poll(look, 0)
			waiting = err != nil || n > 0
		})
	}
	return waiting
}
