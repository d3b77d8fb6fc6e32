package tcp

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Ended says that the peer has closed its side of a connection, or that it broke, also while
// there is something to read that nobody reads.
func Ended(c net.Conn) (ended bool) {
	with, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	if raw, err := with.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			look := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
			n, err := unix.Poll(look, 0)
			ended = err == nil && n > 0
		})
	}
	return ended
}
