package daemon

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/internal/testkit/server"
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
	var err error
	if founder.GossipAddr, err = server.FreeAddr(); err != nil {
		t.Fatal(err)
	}
	startDaemon(t, founder)

	joiner := cfg("n-1")
	joiner.Bootstrap, joiner.Seeds = false, []string{founder.GossipAddr}
	startDaemon(t, joiner)
	again := joiner
	again.NodeID = "n-2"
	mustNotStart(t, again, "data_dir "+joiner.DataDir+" is in use by another pathlockd (process ",
		"stop that one, or use another data_dir")

	stranger := cfg("n-3")
	stranger.Bootstrap, stranger.Seeds, stranger.Token = false, joiner.Seeds,
		"another token, which is as long as the first"
	mustNotStart(t, stranger, "has another internal_auth_token than this node: all nodes of a cluster need the same one")
	if left, err := filepath.Glob(filepath.Join(stranger.DataDir, "[^p]*")); err != nil || len(left) > 0 {
		t.Errorf("a node that was refused left %v (%v)", left, err)
	}
}

// TestLinkTLS: with certificates of the operator's, nodes that show one of the authority
// reach each other, and one that shows another is kept out though it has the token.
func TestLinkTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	var authority []byte
	for _, node := range []string{"n-0", "n-1", "n-2"} {
		keyPair(t, file(node+".pem"), file(node+".key"), node)
		pem, err := os.ReadFile(file(node + ".pem"))
		if err != nil {
			t.Fatal(err)
		}
		if node != "n-2" {
			authority = append(authority, pem...)
		}
	}
	if err := os.WriteFile(file("ca.pem"), authority, 0o600); err != nil {
		t.Fatal(err)
	}
	gossip, err := server.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	cfg := func(node string) Config {
		c := testConfig(t)
		c.NodeID, c.Token, c.GossipAddr = node, "0123456789abcdef0123456789abcdef", "127.0.0.1:0"
		c.RaftAddr = "127.0.0.1:0"
		c.LinkTLSCertPath, c.LinkTLSKeyPath, c.LinkTLSCAPath = file(node+".pem"), file(node+".key"), file("ca.pem")
		if node == "n-0" {
			c.GossipAddr = gossip
		} else {
			c.Bootstrap, c.Seeds = false, []string{gossip}
		}
		return c
	}
	_, founder := startDaemon(t, cfg("n-0"))
	startDaemon(t, cfg("n-1")) // ready: it reaches the system log through the founder
	if udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(gossip))); err != nil {
		t.Errorf("gossip is not over TLS alone: %v", err)
	} else {
		_ = udp.Close()
	}
	none := cfg("n-3")
	none.LinkTLSCertPath, none.LinkTLSKeyPath, none.LinkTLSCAPath = "", "", ""
	for _, s := range []struct {
		what       string
		cfg        Config
		told, tell string // what it says itself, and the founder
	}{
		{"a certificate of its own making", cfg("n-2"), "does not take this node's certificate",
			"this node does not take the peer's certificate"},
		{"no certificate", none, "the peer speaks TLS at its gossip port, and this node has no certificates",
			"the peer does not speak TLS: link_tls_cert_path"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		out, ended := new(logBuffer), make(chan error, 1)
		go func() {
			d, err := Start(ctx, s.cfg, slog.New(slog.NewTextHandler(out, nil)))
			if err == nil {
				d.Close(context.Background())
			}
			ended <- err
		}()
		if !within(func() bool {
			return strings.Contains(out.String(), s.told) && strings.Contains(founder.String(), s.tell)
		}) {
			t.Errorf("a node with %s: it should say %q, the founder %q\n%s", s.what, s.told, s.tell, out)
		}
		cancel()
		if err := <-ended; err == nil {
			t.Errorf("a node with %s is taken in", s.what)
		}
	}
	bad := cfg("n-1")
	bad.DataDir, bad.LinkTLSCAPath = filepath.Join(dir, "x"), file("n-0.key")
	mustNotStart(t, bad, "link_tls_ca_path", "has no certificate in PEM")
}

// TestLinkTLSIsReadAgain: a certificate for the links that is replaced is used by a node
// that runs, whichever end of a connection it is.
func TestLinkTLSIsReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	pem := make(map[string][]byte)
	for _, name := range []string{"old", "new", "joiner"} {
		keyPair(t, file(name+".pem"), file(name+".key"), name)
		b, err := os.ReadFile(file(name + ".pem"))
		if err != nil {
			t.Fatal(err)
		}
		pem[name] = b
	}
	put := func(name string, b []byte) {
		t.Helper()
		if err := os.WriteFile(file(name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The joiner takes the founder for one of theirs with its new certificate alone.
	put("founder-ca.pem", slices.Concat(pem["old"], pem["new"], pem["joiner"]))
	put("joiner-ca.pem", slices.Concat(pem["new"], pem["joiner"]))
	gossip, err := server.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	founder := testConfig(t)
	founder.NodeID, founder.Token, founder.GossipAddr, founder.RaftAddr = "n-0", "0123456789abcdef0123456789abcdef",
		gossip, "127.0.0.1:0"
	joiner := testConfig(t)
	joiner.NodeID, joiner.Token, joiner.GossipAddr, joiner.RaftAddr = "n-1", founder.Token, "127.0.0.1:0", "127.0.0.1:0"
	joiner.Bootstrap, joiner.Seeds = false, []string{gossip}
	founder.LinkTLSCertPath, founder.LinkTLSKeyPath, founder.LinkTLSCAPath = file("old.pem"), file("old.key"),
		file("founder-ca.pem")
	joiner.LinkTLSCertPath, joiner.LinkTLSKeyPath, joiner.LinkTLSCAPath = file("joiner.pem"), file("joiner.key"),
		file("joiner-ca.pem")
	startDaemon(t, founder)
	out, started := new(logBuffer), make(chan *Daemon, 1)
	go func() {
		d, err := Start(t.Context(), joiner, slog.New(slog.NewTextHandler(out, nil)))
		if err != nil {
			t.Error(err)
		}
		started <- d
	}()
	refused := func() bool { return strings.Contains(out.String(), "this node does not take the peer's certificate") }
	if !within(func() bool { return refused() || len(started) > 0 }) || !refused() {
		t.Fatal("a certificate of no authority is taken")
	}
	key, err := os.ReadFile(file("new.key"))
	if err != nil {
		t.Fatal(err)
	}
	put("old.key", key)
	put("old.pem", pem["new"])
	d := <-started
	if d == nil {
		return
	}
	defer d.Close(context.Background())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := d.WaitReady(ctx); err != nil {
		t.Errorf("the new certificate is not used: %v", err)
	}
}
