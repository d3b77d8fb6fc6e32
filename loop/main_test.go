package loop_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/loop"
)

// TestMain ends the node that the tests share, and looks for goroutines that
// somebody left behind.
func TestMain(m *testing.M) {
	if path := os.Getenv(idleEnv); path != "" {
		if err := idleClients(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	before := goleak.IgnoreCurrent() // what packages started when they were loaded
	code := m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, "close the node:", err)
		code = 1
	}
	if code == 0 {
		// gnet moves connections back to their loops on a pool whose workers rest for a while.
		resting := goleak.IgnoreAnyFunction("github.com/panjf2000/ants/v2.(*goWorker).run.func1")
		err := goleak.Find(before, resting)
		for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); {
			err = goleak.Find(before, resting) // what ends by itself may take its time where much else is done
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "left running after everything was closed:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// shared is one node for all tests: what they lock has names of their own.
var shared sharedNode

type sharedNode struct {
	once sync.Once
	node *groups.Node
	dir  string
	err  error
}

// get answers the node, started when it is first asked for.
func (s *sharedNode) get(t testing.TB) *groups.Node {
	t.Helper()
	s.once.Do(func() {
		if s.dir, s.err = os.MkdirTemp("", "loop"); s.err != nil {
			return
		}
		// On a real disk: one in memory would be seen on the heap, which tests measure.
		s.node, s.err = groups.Open(groups.Config{
			DataDir: s.dir, RaftAddr: freePort(t), Bootstrap: true, Segments: 1, GroupCount: 16, LogCount: 2,
			ElectionMin: 300 * time.Millisecond, Heartbeat: 50 * time.Millisecond, MaxQueued: 1 << 20,
			Log: quiet,
		})
		if s.err == nil && !s.node.WaitReady(20*time.Second) {
			s.err = fmt.Errorf("the node is not ready")
		}
	})
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.node
}

func (s *sharedNode) close() error {
	if s.node == nil {
		return nil
	}
	return errors.Join(s.node.Close(time.Second), os.RemoveAll(s.dir))
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// server is a native server on the shared node, on a TCP port and a Unix socket.
type server struct {
	*loop.Server
	tcp, unix net.Addr
}

// serve starts a server, which ends with the test.
func serve(t testing.TB, opt loop.Options) *server {
	t.Helper()
	node := shared.get(t)
	opt.NodeID, opt.ClusterID, opt.Version, opt.RepeatMillis = node.NodeID(), node.ClusterID(), "test",
		groups.RepeatMillis
	if opt.Log == nil {
		opt.Log = quiet
	}
	srv, err := loop.New(node, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Errorf("close the server: %v", err)
		}
	})
	s := &server{Server: srv}
	if s.tcp, err = srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	// Not t.TempDir: a socket's name may have 107 bytes, and tests have long names.
	dir, err := os.MkdirTemp("", "sock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if s.unix, err = srv.Listen("unix", filepath.Join(dir, "s")); err != nil {
		t.Fatal(err)
	}
	return s
}

// both runs a test over TCP and over a Unix socket, on one server.
func both(t *testing.T, opt loop.Options, test func(t *testing.T, addr net.Addr)) {
	t.Helper()
	s := serve(t, opt)
	for _, addr := range []net.Addr{s.tcp, s.unix} {
		t.Run(addr.Network(), func(t *testing.T) { test(t, addr) })
	}
}

// eventually waits for something to become true.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	late := time.After(patience)
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for !is() {
		select {
		case <-late:
			t.Fatalf("never: %s", what)
		case <-look.C:
		}
	}
}
