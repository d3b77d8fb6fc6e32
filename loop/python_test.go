package loop_test

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups"
	process "github.com/pathlockd/pathlockd/internal/testkit/server"
	"github.com/pathlockd/pathlockd/loop"
)

// TestPythonClient lets a client that was written from wire/PROTOCOL.md alone, in
// another language, talk to a real server: what it needs and the page does not say
// is missing there.
func TestPythonClient(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("python3 is not installed, and wire/testdata/client.py is in Python: make examples-tools installs it")
	}
	addr := startServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	script := filepath.Join("..", "wire", "testdata", "client.py")
	cmd := exec.CommandContext(ctx, python, script, addr.IP.String(), fmt.Sprint(addr.Port))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("the client failed: %v", err)
	}
}

// startServer founds a node of its own and serves it on a free port.
func startServer(t *testing.T) *net.TCPAddr {
	t.Helper()
	node, err := groups.Open(groups.Config{
		DataDir: t.TempDir(), RaftAddr: freePort(t), Bootstrap: true, Segments: 1, LogCount: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Close(time.Second); err != nil {
			t.Errorf("close the node: %v", err)
		}
	})
	srv, err := loop.New(node, loop.Options{NodeID: node.NodeID(), ClusterID: node.ClusterID(), Version: "test",
		RepeatMillis: groups.RepeatMillis})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Errorf("close the server: %v", err)
		}
	})
	addr, err := srv.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return addr.(*net.TCPAddr)
}

// freePort is a loopback address that nothing listens on.
func freePort(t testing.TB) string {
	t.Helper()
	addr, err := process.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}
