package tcp

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// ExpireUnacked has the kernel end a connection when something that was sent is not
// acknowledged, or not taken, for so long. Without it that lasts 15 minutes, in which
// keep-alive does not look either.
func ExpireUnacked(c net.Conn, after time.Duration) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(after.Milliseconds()))
		})
	}
}
