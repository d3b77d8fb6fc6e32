package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
	"github.com/pathlockd/pathlockd/internal/testkit/server"
)

// stopWithin is how long the nodes may take to end.
const stopWithin = 40 * time.Second

// run runs the cluster until ctx ends or its time is over, and says whether all was well.
func run(ctx context.Context, cfg config) (ok bool, err error) {
	if err := os.MkdirAll(cfg.dir, 0o700); err != nil {
		return false, err
	}
	if cfg.server == "" {
		fmt.Println("building pathlockd")
		if cfg.server, err = server.Build(ctx, cfg.dir); err != nil {
			return false, err
		}
	}
	fmt.Printf("starting %d nodes\n", cfg.nodes)
	c, err := cfg.start(ctx)
	if err != nil {
		return false, err
	}
	defer stopAll(c)
	if cfg.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cfg.duration)
		defer cancel()
	}
	addrs := c.Addrs()
	fmt.Printf("\n%d nodes in %s. Look at them, or take a lock, from another terminal:\n\n", cfg.nodes, cfg.dir)
	fmt.Printf("  bin/pathlock --addr=%s cluster status\n", strings.Join(addrs, ","))
	fmt.Printf("  bin/pathlock --addr=%s run demo:/you -- sleep 10\n", addrs[len(addrs)-1])
	fmt.Printf("\nKill one and see what happens, start it again, and end all with Ctrl-C:\n\n")
	fmt.Printf("  kill -9 %d\n  %s --config=%s\n\n", c.Node(0).PID(), cfg.server, c.File(0))
	client, err := dial(ctx, addrs)
	if err != nil {
		return false, err
	}
	defer client.Close()
	return watch(ctx, cfg, client, work(ctx, cfg, addrs)), nil
}

// start starts the nodes. The windows are short, so that there is something to see.
func (c *config) start(ctx context.Context) (*server.Cluster, error) {
	return server.StartCluster(ctx, server.Spec{Bin: c.server, Dir: c.dir, Port: c.basePort, Settings: []string{
		fmt.Sprintf("log_count = %d", c.logs), "stability_window_secs = 2", "eviction_window_secs = 30",
		"leader_balance_interval_secs = 5",
	}}, c.nodes)
}

func dial(ctx context.Context, addrs []string) (*pathlockd.Client, error) {
	return pathlockd.Dial(ctx, strings.Join(addrs, ","))
}

func stopAll(c *server.Cluster) {
	fmt.Println("\nstopping")
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	var all sync.WaitGroup
	for i := range c.Nodes() {
		all.Go(func() { _ = c.Stop(ctx, i) }) // one that was killed by hand is gone already
	}
	all.Wait()
}
