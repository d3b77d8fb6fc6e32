package loop_test

import (
	"net"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pathlockd/pathlockd/loop"
)

// TestVanishedClient: the kernel is told to give a client up that acknowledges nothing for
// 30 s, and to look after 15 s whether one that says nothing is there.
func TestVanishedClient(t *testing.T) {
	s := serve(t, loop.Options{})
	p := join(t, s.tcp)
	want := p.conn.LocalAddr().(*net.TCPAddr).Port
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, f := range open {
		fd, err := strconv.Atoi(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		peer, err := unix.Getpeername(fd)
		if at, ok := peer.(*unix.SockaddrInet4); err != nil || !ok || at.Port != want {
			continue
		}
		found++
		for option, want := range map[int]int{unix.TCP_USER_TIMEOUT: 30_000, unix.TCP_KEEPIDLE: 15} {
			if got, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, option); err != nil || got != want {
				t.Errorf("TCP option %d is %d (%v), want %d", option, got, err, want)
			}
		}
		if on, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE); err != nil || on == 0 {
			t.Errorf("keep-alive is %d (%v)", on, err)
		}
	}
	if found == 0 { // while the event loop takes it over there are two
		t.Error("no socket of the connection was found")
	}
}
