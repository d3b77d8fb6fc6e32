package compat_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	gvfs "github.com/lni/vfs"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pathlockd/pathlockd/compat"
	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/internal/testkit/server"
)

// TestMain ends the node that the tests share, and looks for goroutines that
// somebody left behind.
func TestMain(m *testing.M) {
	before := goleak.IgnoreCurrent()
	code := m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, "close the node:", err)
		code = 1
	}
	if code == 0 {
		err := goleak.Find(before)
		for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); {
			err = goleak.Find(before) // what ends by itself may take its time where much else is done
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
		if s.dir, s.err = os.MkdirTemp("", "compat"); s.err != nil {
			return
		}
		s.node, s.err = groups.Open(groups.Config{
			DataDir: s.dir, RaftAddr: freePort(t), Bootstrap: true, Segments: 1, GroupCount: 16, LogCount: 2,
			ElectionMin: 300 * time.Millisecond, Heartbeat: 50 * time.Millisecond, MaxQueued: 1 << 20,
			RaftFS: gvfs.NewMem(), FS: vfs.NewMem(), Log: quiet,
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
	err := s.node.Close(5 * time.Second)
	if e := os.RemoveAll(s.dir); err == nil {
		err = e
	}
	return err
}

var quiet = slog.New(slog.DiscardHandler)

func freePort(t testing.TB) string {
	t.Helper()
	addr, err := server.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// serve starts a gRPC server over the shared node, and answers it and its address.
func serve(t testing.TB, opt compat.ServerOptions, events int) (*compat.Service, string) {
	t.Helper()
	node := shared.get(t)
	svc := compat.NewService(node, compat.Options{NodeID: node.NodeID(), ClusterID: node.ClusterID(),
		EventBacklog: events})
	if opt.Log == nil {
		opt.Log = quiet
	}
	srv := compat.NewServer(svc, opt)
	addr, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		srv.Close()
		tidy(t, node)
	})
	return svc, addr
}

// tidy takes back all that a test's owners hold and wait for, so that it can be run
// again on the same node.
func tidy(t testing.TB, node *groups.Node) {
	t.Helper()
	svc := compat.NewService(node, compat.Options{})
	for _, owner := range []string{"a", "b", "c", "d", "slow", "fast", "sub-a", "sub-b", "types-a"} {
		if _, err := svc.ForceRelease(context.Background(), &pb.ForceReleaseRequest{VictimId: owner}); err != nil {
			t.Error(err)
		}
	}
}

// client connects a stock client.
func client(t testing.TB, addr string, opts ...grpc.DialOption) (pb.PathLockClient, *grpc.ClientConn) {
	t.Helper()
	opts = append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, opts...)
	conn, err := grpc.NewClient(addr, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return pb.NewPathLockClient(conn), conn
}

// within bounds a test's calls.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	t.Cleanup(cancel)
	return ctx
}
