package link

import (
	"context"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// TestExpire: the kernel is told how long a door's connection may hang.
func TestExpire(t *testing.T) {
	b, _ := door(t, 2, echo)
	a, _ := door(t, 1, echo)
	c, err := a.Dial(context.Background(), "", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.raw.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		if ms, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT); err != nil ||
			int64(ms) != unacked.Milliseconds() {
			t.Errorf("%d ms, %v", ms, err)
		}
	}); err != nil {
		t.Fatal(err)
	}
}
