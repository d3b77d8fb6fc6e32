package daemon

import (
	"net"
	"path/filepath"
	"testing"
)

// TestJoinerLocksItsDirectory: a node that joins has its data directory for itself from
// before it looks for its cluster, and one of a wrong token leaves nothing in its own.
func TestJoinerLocksItsDirectory(t *testing.T) {
	const token = "0123456789abcdef0123456789abcdef"
	cfg := func(node string) Config {
		c := testConfig(t)
		c.NodeID, c.Token, c.GossipAddr = node, token, "127.0.0.1:0"
		return c
	}
	founder := cfg("n-0")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	founder.GossipAddr = l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	startDaemon(t, founder)

	joiner := cfg("n-1")
	joiner.Bootstrap, joiner.Seeds = false, []string{founder.GossipAddr}
	startDaemon(t, joiner)
	again := joiner
	again.NodeID = "n-2"
	mustNotStart(t, again, "data_dir "+joiner.DataDir+" is in use by another pathlockd (process ", "stop that one, or use another data_dir")

	stranger := cfg("n-3")
	stranger.Bootstrap, stranger.Seeds, stranger.Token = false, joiner.Seeds, "another token, which is as long as the first"
	mustNotStart(t, stranger, "has another internal_auth_token than this node: all nodes of a cluster need the same one")
	if left, err := filepath.Glob(filepath.Join(stranger.DataDir, "[^p]*")); err != nil || len(left) > 0 {
		t.Errorf("a node that was refused left %v (%v)", left, err)
	}
}
