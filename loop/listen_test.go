package loop_test

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

func TestListen(t *testing.T) {
	s := serve(t, loop.Options{})
	dir := filepath.Dir(s.unix.String())

	// A socket that somebody listens on is left alone, and so is what is no socket.
	if _, err := s.Listen("unix", s.unix.String()); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("listen where a server listens: %v", err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Listen("unix", file); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("listen on a file: %v", err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "precious" {
		t.Errorf("the file is %q, %v", b, err)
	}
	if _, err := s.Listen("tcp", s.tcp.String()); err == nil ||
		!strings.Contains(err.Error(), "address already in use") {
		t.Errorf("listen on a port that is taken: %v", err)
	}

	// One that a process left behind when it was killed is taken over.
	stale := filepath.Join(dir, "stale")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	addr, err := s.Listen("unix", stale)
	if err != nil {
		t.Fatal(err)
	}
	join(t, addr).must(ping())

	// Closed listeners take nobody; who is there goes on.
	p := join(t, s.tcp)
	s.CloseListeners()
	for _, addr := range []net.Addr{s.tcp, s.unix, addr} {
		if c, err := net.Dial(addr.Network(), addr.String()); err == nil {
			c.Close()
			t.Errorf("%v still takes connections", addr)
		}
	}
	p.must(ping())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	p.ended()
	if _, err := s.Listen("tcp", "127.0.0.1:0"); err == nil {
		t.Error("a closed server listens")
	}
	if err := s.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// crowd is so many sockets that are not connected yet, and sets how many file descriptors the process may have: as
// many as it has, and a few; whatever it takes with more.
func crowd(t *testing.T, n int) (fds []int, few, enough func()) {
	t.Helper()
	fds = make([]int, n)
	for i := range fds {
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { syscall.Close(fd) })
		fds[i] = fd
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	limit := func(n uint64) {
		t.Helper()
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: before.Max}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { limit(before.Cur) })
	return fds, func() { limit(uint64(fds[n-1]) + 4) }, func() { limit(before.Cur) }
}

// hello connects a socket to a server, and sends a hello.
func hello(t *testing.T, fd int, addr net.Addr) {
	t.Helper()
	if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: addr.String()}); err != nil {
		t.Fatal(err)
	}
	frame := wire.AppendRequest(nil, 1, &wire.Request{Op: wire.OpHello,
		Hello: &wire.Hello{MinVersion: 1, MaxVersion: 1}})
	if _, err := syscall.Write(fd, frame); err != nil {
		t.Fatal(err)
	}
}

// TestOutOfFiles: when there are no file descriptors left, new connections wait and
// those that are there notice nothing; when there are some again, all are served.
func TestOutOfFiles(t *testing.T) {
	s := serve(t, loop.Options{Connections: 1000})
	other := undisturbed(t, s.tcp)
	const n = 60
	fds, few, enough := crowd(t, n)
	few()
	had := s.Connections()
	for _, fd := range fds {
		hello(t, fd, s.unix)
	}
	pairs := other.count.Load()
	eventually(t, "the bystander goes on meanwhile", func() bool { return other.count.Load() > pairs+20 })
	if got := s.Connections(); got >= had+n {
		t.Fatalf("all of %d connections were taken: the limit on open files does not bind", got)
	}
	enough()
	eventually(t, "all are taken when there are files again", func() bool { return s.Connections() == had+n })
	for _, fd := range fds {
		var answer [512]byte
		if n, err := syscall.Read(fd, answer[:]); err != nil || n < 20 {
			t.Errorf("hello is answered with %d bytes, %v", n, err)
		}
	}
	other.stop()
}

// stops is a listener whose process is stopped for a moment as it takes its eighth connection.
type stops struct {
	*net.UnixListener
	n int
}

func (l *stops) Accept() (net.Conn, error) {
	c, err := l.UnixListener.Accept()
	if l.n++; l.n == 8 {
		time.Sleep(20 * time.Millisecond) // it is the time that it takes
	}
	return c, err
}

// TestOutOfFilesForLong: who waited for longer than a client that is there is sure to is told to connect anew; what
// it sent may have been asked elsewhere since. Who comes once none of them waits is served.
func TestOutOfFilesForLong(t *testing.T) {
	t.Run("", func(t *testing.T) { outOfFilesForLong(t, func(l *net.UnixListener) net.Listener { return l }) })
	t.Run("the process stops", func(t *testing.T) {
		outOfFilesForLong(t, func(l *net.UnixListener) net.Listener { return &stops{UnixListener: l} })
	})
}

func outOfFilesForLong(t *testing.T, as func(*net.UnixListener) net.Listener) {
	const n, waits = 20, 100 * time.Millisecond
	srv, err := loop.New(shared.get(t), loop.Options{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	srv.Patience(waits)
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr()
	if err := srv.Serve(as(l.(*net.UnixListener))); err != nil {
		t.Fatal(err)
	}
	fds, few, enough := crowd(t, n)
	few()
	for _, fd := range fds {
		hello(t, fd, addr)
	}
	time.Sleep(3 * waits) // how long they wait is what it is about
	served := srv.Connections()
	if served == n {
		t.Fatal("this shows nothing: all were taken at once")
	}
	enough()
	turned := 0
	for _, fd := range fds {
		var answer [512]byte
		n, err := syscall.Read(fd, answer[:])
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(answer[:n], []byte("connections waited for over 30s")) {
			turned++
		}
	}
	if turned != n-served {
		t.Errorf("%d of %d that waited were turned away", turned, n-served)
	}
	eventually(t, "who comes later is served", func() bool { // once the server waited for somebody
		c, err := net.Dial(addr.Network(), addr.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		frame := wire.AppendRequest(nil, 1, &wire.Request{Op: wire.OpHello,
			Hello: &wire.Hello{MinVersion: 1, MaxVersion: 1}})
		_, _ = c.Write(frame)
		answer := make([]byte, 512)
		n, _ := c.Read(answer)
		return n > 0 && !bytes.Contains(answer[:n], []byte("connections waited"))
	})
}
