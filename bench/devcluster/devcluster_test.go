package main

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/internal/testkit/server"
)

// freePorts answers the first of so many ports in a row that nobody listens on.
func freePorts(t *testing.T, n int) int {
	t.Helper()
	first, err := server.FreePorts(n)
	if err != nil {
		t.Fatal(err)
	}
	return first
}

// TestDevCluster founds a cluster of three, works on it, and goes on with it.
func TestDevCluster(t *testing.T) {
	bin, err := server.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cfg := config{server: bin, dir: filepath.Join(t.TempDir(), "cluster"), nodes: 3, clients: 4, logs: 2,
		basePort: freePorts(t, 3*server.PortsEach)}
	for range 2 { // the second time it resumes
		c, err := cfg.start(ctx)
		if err != nil {
			t.Fatal(err)
		}
		addrs := c.Addrs()
		if want := fmt.Sprintf("127.0.0.1:%d", cfg.basePort+2*server.PortsEach); addrs[2] != want {
			t.Errorf("the last node serves at %s, and should at %s", addrs[2], want)
		}
		nodes := []*server.Process{c.Node(0), c.Node(1), c.Node(2)}
		client, err := dial(ctx, addrs)
		if err != nil {
			t.Fatal(err)
		}
		working, stop := context.WithCancel(ctx)
		l := work(working, cfg, addrs)
		within(ctx, t, func() (missing string) {
			doc, err := client.ClusterStatus(ctx)
			switch {
			case err != nil:
				return err.Error()
			case !doc.Healthy || len(doc.Nodes) < 3:
				return fmt.Sprintf("%d nodes, problems %q", len(doc.Nodes), doc.Problems)
			case l.done.Load() < 100:
				return fmt.Sprintf("%d locks taken", l.done.Load())
			}
			return ""
		})
		stop()
		if failed := l.failed.Load(); failed > 0 {
			_, _, worst := l.look()
			t.Errorf("%d requests failed, the last with: %s", failed, worst)
		}
		_ = client.Close()
		stopAll(c)
		for i, p := range nodes {
			select {
			case <-p.Ended():
			default:
				t.Errorf("node %d did not end", i)
			}
		}
	}
}

// within looks again and again until nothing is missing.
func within(ctx context.Context, t *testing.T, look func() (missing string)) {
	t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for missing := look(); missing != ""; missing = look() {
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("it does not come to this: %s", missing)
		}
	}
}
