package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
)

// Cluster is pathlockd processes that are the nodes of one cluster on loopback. Its
// methods are for one goroutine.
type Cluster struct {
	bin   string
	token string
	args  []string
	nodes []*node
}

// node is one of them.
type node struct {
	p            *Process
	dir          string
	raft, gossip string
}

// StartCluster starts so many nodes, each on a directory of its own below dir and with
// the same further arguments; what these do not say is as by default. The first founds
// the cluster and the others join it. All serve when it returns; replicas may still have
// to find their places.
func StartCluster(ctx context.Context, bin, dir string, nodes int, args ...string) (*Cluster, error) {
	secret := make([]byte, 32)
	rand.Read(secret) // never fails
	c := &Cluster{bin: bin, token: hex.EncodeToString(secret), args: args}
	for i := range nodes {
		n := &node{dir: filepath.Join(dir, strconv.Itoa(i))}
		for _, addr := range []*string{&n.raft, &n.gossip} {
			var err error
			if *addr, err = lowAddr(); err != nil {
				c.Kill()
				return nil, err
			}
		}
		c.nodes = append(c.nodes, n)
		if err := c.Start(ctx, i); err != nil {
			c.Kill()
			return nil, err
		}
	}
	return c, nil
}

// Start starts a node that was killed, again on its directory.
func (c *Cluster) Start(ctx context.Context, i int) error {
	n := c.nodes[i]
	args := append([]string{
		"--node_id=" + c.NodeID(i), "--data_dir=" + n.dir, "--listen=127.0.0.1:0", "--native_listen=127.0.0.1:0",
		"--raft_addr=" + n.raft, "--gossip_addr=" + n.gossip, "--internal_auth_token=" + c.token,
	}, c.args...)
	if i == 0 {
		args = append(args, "--bootstrap=true")
	} else {
		args = append(args, "--seed_nodes="+c.nodes[0].gossip)
	}
	p, err := Launch(ctx, c.bin, args...)
	if err != nil {
		return fmt.Errorf("node %d: %w", i, err)
	}
	n.p = p
	return nil
}

// Nodes is how many there are.
func (c *Cluster) Nodes() int { return len(c.nodes) }

// Node is the process of a node.
func (c *Cluster) Node(i int) *Process { return c.nodes[i].p }

// NodeID is the name of a node.
func (c *Cluster) NodeID(i int) string { return "pathlockd-" + strconv.Itoa(i) }

// Kill ends all nodes with SIGKILL.
func (c *Cluster) Kill() {
	for _, n := range c.nodes {
		if n.p != nil {
			n.p.Kill()
		}
	}
}

const (
	// Ports are chosen below those that systems give to connections by themselves: a
	// node that is down keeps its own.
	lowestPort, highestPort = 10_000, 30_000
	portTries               = 100
)

// lowAddr answers an address that nobody listens on.
func lowAddr() (string, error) {
	var err error
	for range portTries {
		addr := fmt.Sprintf("127.0.0.1:%d", lowestPort+mathrand.IntN(highestPort-lowestPort))
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err == nil {
			return addr, l.Close()
		}
	}
	return "", fmt.Errorf("find a free port: %w", err)
}
