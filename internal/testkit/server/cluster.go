package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Cluster is pathlockd processes that are the nodes of one cluster on loopback. The first
// founds it and the others join. While none is added, different nodes may be started and
// ended at once, and anybody may ask where a node is.
type Cluster struct {
	spec  Spec
	token string
	nodes []*node
}

// Spec says what the nodes of a cluster are.
type Spec struct {
	Bin string // pathlockd
	Dir string // where the nodes have their configuration and their data
	// Port is the first of PortsEach that each node has; 0 is for any that are free.
	Port int
	// Settings are further lines of each node's configuration. What they do not say is as
	// by default.
	Settings []string
	// Own are lines of one node's alone; nil is for none.
	Own func(node int) []string
}

// PortsEach is how many ports a node has, with room for more.
const PortsEach = 10

// node is one of them.
type node struct {
	native, grpc, raft, gossip, link string

	founds bool
	p      atomic.Pointer[Process] // nil while it is down
}

// StartCluster starts so many nodes, which go on with what they find in their directories.
// All serve when it returns; replicas may still have to find their places.
func StartCluster(ctx context.Context, spec Spec, nodes int) (*Cluster, error) {
	if err := os.MkdirAll(spec.Dir, 0o700); err != nil {
		return nil, err
	}
	token, err := secret(filepath.Join(spec.Dir, "token"))
	if err != nil {
		return nil, err
	}
	c := &Cluster{spec: spec, token: token}
	for range nodes {
		if err := c.Add(); err != nil {
			return nil, err
		}
	}
	errs := make([]error, nodes)
	var all sync.WaitGroup
	for i := range nodes {
		all.Go(func() { errs[i] = c.Start(ctx, i) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// secret reads what the nodes know each other by, or makes it.
func secret(file string) (string, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		raw := make([]byte, 32)
		rand.Read(raw) // never fails
		b = []byte(hex.EncodeToString(raw))
		err = os.WriteFile(file, b, 0o600)
	}
	return strings.TrimSpace(string(b)), err
}

// Add adds a node, which is down.
func (c *Cluster) Add() error {
	i := len(c.nodes)
	n := &node{native: "127.0.0.1:0", grpc: "127.0.0.1:0", link: "127.0.0.1:0", founds: i == 0}
	if c.spec.Port > 0 {
		for k, addr := range []*string{&n.native, &n.grpc, &n.raft, &n.gossip, &n.link} {
			*addr = fmt.Sprintf("127.0.0.1:%d", c.spec.Port+i*PortsEach+k)
		}
	} else {
		for _, addr := range []*string{&n.raft, &n.gossip} {
			var err error
			if *addr, err = FreeAddr(); err != nil {
				return err
			}
		}
	}
	c.nodes = append(c.nodes, n)
	return nil
}

// Start starts a node that is down, on its directory, and returns when it serves.
func (c *Cluster) Start(ctx context.Context, i int) error {
	if err := os.WriteFile(c.File(i), []byte(c.configuration(i)), 0o600); err != nil {
		return err
	}
	p, err := Launch(ctx, c.spec.Bin, "--config="+c.File(i))
	if err != nil {
		return fmt.Errorf("node %d: %w", i, err)
	}
	c.nodes[i].p.Store(p)
	return nil
}

// Use has the nodes that are started from now on run another binary.
func (c *Cluster) Use(bin string) { c.spec.Bin = bin }

// File is a node's configuration, as of its last start.
func (c *Cluster) File(i int) string { return filepath.Join(c.spec.Dir, c.NodeID(i)+".toml") }

// configuration is what a node's file says.
func (c *Cluster) configuration(i int) string {
	n := c.nodes[i]
	lines := []string{
		fmt.Sprintf("node_id = %q", c.NodeID(i)),
		fmt.Sprintf("data_dir = %q", c.dataDir(i)),
		fmt.Sprintf("native_listen = %q", n.native),
		fmt.Sprintf("listen = %q", n.grpc),
		fmt.Sprintf("raft_addr = %q", n.raft),
		fmt.Sprintf("gossip_addr = %q", n.gossip),
		fmt.Sprintf("link_addr = %q", n.link),
		fmt.Sprintf("internal_auth_token = %q", c.token),
	}
	if n.founds {
		lines = append(lines, "bootstrap = true")
	} else {
		var seeds []string
		for _, other := range c.nodes {
			if other != n {
				seeds = append(seeds, strconv.Quote(other.gossip))
			}
		}
		lines = append(lines, "seed_nodes = ["+strings.Join(seeds, ", ")+"]")
	}
	lines = append(lines, c.spec.Settings...)
	if c.spec.Own != nil {
		lines = append(lines, c.spec.Own(i)...)
	}
	return strings.Join(lines, "\n") + "\n"
}

func (c *Cluster) dataDir(i int) string { return filepath.Join(c.spec.Dir, strconv.Itoa(i)) }

// Kill ends a node with SIGKILL, if it is up.
func (c *Cluster) Kill(i int) {
	if p := c.nodes[i].p.Swap(nil); p != nil {
		p.Kill()
	}
}

// Stop asks a node to drain, if it is up, and waits until it is gone; when ctx ends before,
// it is killed.
func (c *Cluster) Stop(ctx context.Context, i int) error {
	p := c.nodes[i].p.Swap(nil)
	if p == nil {
		return nil
	}
	if err := p.Stop(ctx); err != nil {
		return fmt.Errorf("node %d: %w\n%s", i, err, p.Log())
	}
	return nil
}

// Replace empties the disk of a node that is down: it joins the others when it is started.
func (c *Cluster) Replace(i int) error {
	c.nodes[i].founds = false
	return os.RemoveAll(c.dataDir(i))
}

// Close ends all nodes with SIGKILL.
func (c *Cluster) Close() {
	for i := range c.nodes {
		c.Kill(i)
	}
}

// Nodes is how many there are.
func (c *Cluster) Nodes() int { return len(c.nodes) }

// Node is the process of a node, nil while it is down.
func (c *Cluster) Node(i int) *Process { return c.nodes[i].p.Load() }

// NodeID is the name of a node.
func (c *Cluster) NodeID(i int) string { return "pathlockd-" + strconv.Itoa(i) }

// Addrs lists where the nodes that are up serve.
func (c *Cluster) Addrs() (all []string) {
	for i := range c.nodes {
		if p := c.Node(i); p != nil {
			all = append(all, p.Addr)
		}
	}
	return all
}
