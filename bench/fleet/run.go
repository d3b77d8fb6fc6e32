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
	defer func() { err = errors.Join(err, stopAll(nodes)) }()
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
	fmt.Printf("  bin/pathlock --server=%s cluster status\n", strings.Join(addrs, ","))
	fmt.Printf("  bin/pathlock --server=%s run demo:/you -- sleep 10\n", addrs[len(addrs)-1])
	fmt.Printf("\nKill one and see what happens: kill -9 %d. Ctrl-C ends all.\n\n", nodes[0].PID())
	client, err := pathlockd.Dial(ctx, strings.Join(addrs, ","))
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
		args := []string{
			fmt.Sprintf("--node_id=pathlockd-%d", i), "--data_dir=" + filepath.Join(cfg.dir, fmt.Sprint(i)),
			"--native_listen=" + cfg.addr(i, native), "--listen=" + cfg.addr(i, grpc), "--raft_addr=" + cfg.addr(i, raft),
			"--gossip_addr=" + cfg.addr(i, gossip), "--link_addr=" + cfg.addr(i, link), "--internal_auth_token=" + token,
			"--log_count=4", "--stability_window_secs=2", "--eviction_window_secs=30", "--leader_balance_interval_secs=5",
		}
		if i == 0 {
			args = append(args, "--bootstrap")
		} else {
			args = append(args, "--seed_nodes="+cfg.addr(0, gossip))
		}
		nodes[i], errs[i] = server.Launch(ctx, cfg.server, args...)
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

func stopAll(nodes []*server.Process) error {
	fmt.Println("\nstopping")
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	var all sync.WaitGroup
	for _, p := range nodes {
		all.Go(func() { _ = p.Stop(ctx) }) // one that was killed by hand is gone already
	}
	all.Wait()
	return nil
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
