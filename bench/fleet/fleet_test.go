package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/bench/server"
)

// freePorts answers the first of so many ports in a row that nobody listens on, below
// those that the kernel gives to connections.
func freePorts(t *testing.T, n int) int {
	t.Helper()
	for base := 20_000 + os.Getpid()%1000*10; base < 32_000; base += n {
		free := true
		for p := base; p < base+n && free; p++ {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
			if free = err == nil; free {
				_ = l.Close()
			}
		}
		if free {
			return base
		}
	}
	t.Fatal("no ports are free")
	return 0
}

// TestFleet founds a cluster of three, works on it, and goes on with it.
func TestFleet(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	bin, err := server.Build(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cfg := config{server: bin, dir: filepath.Join(t.TempDir(), "fleet"), nodes: 3, clients: 4, logs: 2, basePort: freePorts(t, 3*portsEach)}
	for range 2 { // the second time it resumes
		nodes, err := start(ctx, cfg, mustSecret(t, cfg.dir))
		if err != nil {
			t.Fatal(err)
		}
		addrs := []string{cfg.addr(0, native), cfg.addr(1, native), cfg.addr(2, native)}
		client, err := dial(ctx, addrs)
		if err != nil {
			t.Fatal(err)
		}
		working, stop := context.WithCancel(ctx)
		l := work(working, cfg, addrs)
		for healthy := false; !healthy || l.done.Load() < 100; {
			doc, err := client.ClusterStatus(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if healthy = doc.Healthy && len(doc.Nodes) == 3; ctx.Err() != nil {
				t.Fatalf("not healthy: %q, %d locks taken", doc.Problems, l.done.Load())
			}
			time.Sleep(50 * time.Millisecond)
		}
		stop()
		if failed := l.failed.Load(); failed > 0 {
			_, _, worst := l.look()
			t.Errorf("%d requests failed, the last with: %s", failed, worst)
		}
		_ = client.Close()
		stopAll(nodes)
		for i, p := range nodes {
			select {
			case <-p.Ended():
			default:
				t.Errorf("node %d did not end", i)
			}
		}
	}
}

func mustSecret(t *testing.T, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := secret(filepath.Join(dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}
