//go:build unix

package pathlockd

import (
	"net"
	"syscall"
)

// nonblocking answers a function that writes as much to nc as fits into the
// socket's buffer and never waits; nil when nc is not a plain socket. It is called
// by one goroutine at a time.
func nonblocking(nc net.Conn) func(b []byte) (n int, err error) {
	var raw syscall.RawConn
	var err error
	switch nc := nc.(type) {
	case *net.TCPConn:
		raw, err = nc.SyscallConn()
	case *net.UnixConn:
		raw, err = nc.SyscallConn()
	default:
		return nil
	}
	if err != nil {
		return nil
	}
	var (
		out   []byte
		wrote int
		fault error
	)
	once := func(fd uintptr) bool {
		for {
			wrote, fault = syscall.Write(int(fd), out)
			if fault != syscall.EINTR {
				return true // whatever it was: do not wait
			}
		}
	}
	return func(b []byte) (int, error) {
		out = b
		err := raw.Write(once)
		out = nil
		switch {
		case err != nil:
			return 0, err
		case fault == syscall.EAGAIN:
			return 0, nil
		case fault != nil:
			return 0, fault
		}
		return wrote, nil
	}
}
