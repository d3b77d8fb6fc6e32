package loop_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

const (
	// idleEnv makes the test binary be the clients of TestIdleConnections: a process
	// of their own, so that the heap measured is the server's.
	idleEnv = "PATHLOCKD_TEST_IDLE_CLIENTS"
	// idleBudget is what an idle connection may cost, bytes of heap (design.md
	// section 6).
	idleBudget = 10 << 10
)

// connections is how many TestIdleConnections opens: all of the budget's 10 000
// with PATHLOCKD_LONG.
func connections() int {
	if os.Getenv("PATHLOCKD_LONG") != "" {
		return 10_000
	}
	return 2000
}

// TestIdleConnections measures the memory of connections that said hello, were busy
// once, and are silent since.
func TestIdleConnections(t *testing.T) {
	n := connections()
	allowFiles(t, uint64(n)+1024)
	s := serve(t, loop.Options{Connections: n + 64})
	other := undisturbed(t, s.tcp)
	before := heap()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", idleEnv, n, s.unix))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	measure := func(what string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != what {
			t.Fatalf("the clients say %q, want %q", lines.Text(), what)
		}
		got := heap()
		each := (got - before) / int64(n)
		t.Logf("%d connections, %s: %d B of heap each (budget %d), after %v", n, what, each, idleBudget,
			time.Since(began).Round(time.Millisecond))
		if each > idleBudget {
			t.Errorf("%s: %d B of heap a connection, at most %d are allowed", what, each, idleBudget)
		}
	}
	measure("greeted")
	if got := s.Connections(); got < n {
		t.Errorf("%d connections, want %d", got, n)
	}
	fmt.Fprintln(in, "go on")
	measure("were busy")
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the clients: %v", err)
	}
	other.stop()
	eventually(t, "all connections are gone", func() bool { return s.Connections() == 0 })
	t.Logf("after they left: %+d B of heap in all", heap()-before)
}

// idleClients is the clients: it opens connections and waits to be told what to do.
func idleClients(env string) error {
	var n int
	var path string
	if _, err := fmt.Sscanf(env, "%d %s", &n, &path); err != nil {
		return err
	}
	hello := wire.AppendRequest(nil, 1, &wire.Request{Op: wire.OpHello,
		Hello: &wire.Hello{MinVersion: 1, MaxVersion: 1}})
	var burst []byte
	for range 2000 {
		burst = wire.AppendRequest(burst, 2, ping())
	}
	conns := make([]net.Conn, 0, n)
	all := func(b []byte, want int) error {
		answer := make([]byte, want)
		for _, c := range conns {
			if _, err := c.Write(b); err != nil {
				return err
			}
			if _, err := io.ReadFull(c, answer); err != nil {
				return err
			}
		}
		return nil
	}
	for range n {
		c, err := net.Dial("unix", path)
		if err != nil {
			return err
		}
		conns = append(conns, c)
		var head [4]byte
		if _, err := c.Write(hello); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, c, int64(head[2])<<8|int64(head[3])); err != nil {
			return err
		}
	}
	fmt.Println("greeted")
	in := bufio.NewScanner(os.Stdin)
	in.Scan()
	if err := all(burst, 2000*len(wire.AppendReply(nil, 2, wire.OpPing, &wire.Result{}))); err != nil {
		return err
	}
	fmt.Println("were busy")
	in.Scan()
	return nil
}

// allowFiles raises the limit on open files if that is needed.
func allowFiles(t testing.TB, need uint64) {
	t.Helper()
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	if l.Cur >= need {
		return
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: need, Max: max(l.Max, need)}); err != nil {
		t.Fatalf("needs %d open files, and the hard limit is %d (%v): raise it (ulimit -Hn, LimitNOFILE)",
			need, l.Max, err)
	}
}

// heap is the live heap, bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what pools kept over the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// openFiles is how many file descriptors this process has.
func openFiles(t testing.TB) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	sockets := 0
	for _, f := range d {
		if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			sockets++
		}
	}
	return sockets
}

// settledHeap is how much the heap has grown since before, once that is at most so much, or
// will not be: what was answered is let go of by its loop a little after the answer, and
// what sits in pools goes with the second collection.
func settledHeap(before, most int64) (grown int64) {
	for range 50 {
		if grown = heap() - before; grown <= most {
			break
		}
	}
	return grown
}
