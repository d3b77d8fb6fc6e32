package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/bench/server"
	pathlockd "github.com/pathlockd/pathlockd/clients/go"
)

// portsEach is how many ports a node has: native, gRPC, raft, gossip, link.
const portsEach = 10

// stopWithin is how long the nodes may take to end.
const stopWithin = 40 * time.Second

// run runs the cluster until ctx ends or its time is over, and says whether all was well.
func run(ctx context.Context, cfg config) (ok bool, err error) {
	if err := os.MkdirAll(cfg.dir, 0o700); err != nil {
		return false, err
	}
	token, err := secret(filepath.Join(cfg.dir, "token"))
	if err != nil {
		return false, err
	}
	if cfg.server == "" {
		fmt.Println("building pathlockd")
		if cfg.server, err = server.Build(ctx, cfg.dir); err != nil {
			return false, err
		}
	}
	nodes, err := start(ctx, cfg, token)
	defer func() { stopAll(nodes) }()
	if err != nil {
		return false, err
	}
	if cfg.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cfg.duration)
		defer cancel()
	}
	addrs := make([]string, len(nodes))
	for i := range nodes {
		addrs[i] = cfg.addr(i, native)
	}
	fmt.Printf("\n%d nodes in %s. Look at them, or take a lock, from another terminal:\n\n", cfg.nodes, cfg.dir)
	fmt.Printf("  bin/pathlock --addr=%s cluster status\n", strings.Join(addrs, ","))
	fmt.Printf("  bin/pathlock --addr=%s run demo:/you -- sleep 10\n", addrs[len(addrs)-1])
	fmt.Printf("\nKill one and see what happens: kill -9 %d. Ctrl-C ends all.\n\n", nodes[0].PID())
	client, err := dial(ctx, addrs)
	if err != nil {
		return false, err
	}
	defer client.Close()
	return watch(ctx, cfg, client, work(ctx, cfg, addrs)), nil
}

// Ports of a node.
const (
	native = iota
	grpc
	raft
	gossip
	link
)

func (c *config) addr(node, port int) string {
	return fmt.Sprintf("127.0.0.1:%d", c.basePort+node*portsEach+port)
}

// start starts the nodes: the first founds the cluster, the others join it.
func start(ctx context.Context, cfg config, token string) ([]*server.Process, error) {
	nodes := make([]*server.Process, cfg.nodes)
	errs := make([]error, cfg.nodes)
	one := func(i int) {
		file := filepath.Join(cfg.dir, fmt.Sprintf("pathlockd-%d.toml", i))
		if errs[i] = os.WriteFile(file, []byte(cfg.file(i, token)), 0o600); errs[i] == nil {
			nodes[i], errs[i] = server.Launch(ctx, cfg.server, "--config="+file)
		}
	}
	fmt.Printf("starting %d nodes\n", cfg.nodes)
	var all sync.WaitGroup
	for i := range nodes {
		all.Go(func() { one(i) })
	}
	all.Wait()
	up := make([]*server.Process, 0, len(nodes))
	for _, p := range nodes {
		if p != nil {
			up = append(up, p)
		}
	}
	return up, errors.Join(errs...)
}

// file is a node's configuration. The windows are short, so that there is something to
// see.
func (c *config) file(node int, token string) string {
	text := fmt.Sprintf(`node_id = "pathlockd-%d"
data_dir = %q
native_listen = %q
listen = %q
raft_addr = %q
gossip_addr = %q
link_addr = %q
internal_auth_token = %q
log_count = %d
stability_window_secs = 2
eviction_window_secs = 30
leader_balance_interval_secs = 5
`, node, filepath.Join(c.dir, fmt.Sprint(node)), c.addr(node, native), c.addr(node, grpc), c.addr(node, raft),
		c.addr(node, gossip), c.addr(node, link), token, c.logs)
	if node == 0 {
		return text + "bootstrap = true\n"
	}
	return text + fmt.Sprintf("seed_nodes = [%q]\n", c.addr(0, gossip))
}

func dial(ctx context.Context, addrs []string) (*pathlockd.Client, error) {
	return pathlockd.Dial(ctx, strings.Join(addrs, ","))
}

func stopAll(nodes []*server.Process) {
	fmt.Println("\nstopping")
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	var all sync.WaitGroup
	for _, p := range nodes {
		all.Go(func() { _ = p.Stop(ctx) }) // one that was killed by hand is gone already
	}
	all.Wait()
}

// secret reads the nodes' token, or makes one.
func secret(path string) (string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		raw := make([]byte, 32)
		if _, err := rand.Read(raw); err != nil {
			return "", err
		}
		b = []byte(hex.EncodeToString(raw))
		err = os.WriteFile(path, b, 0o600)
		return string(b), err
	}
	return strings.TrimSpace(string(b)), err
}
