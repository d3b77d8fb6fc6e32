package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// testConfig is a small daemon on free ports, in a directory of its own.
func testConfig(t *testing.T) Config {
	c := DefaultConfig()
	c.DataDir = filepath.Join(t.TempDir(), "data")
	c.Bootstrap = true
	c.NativeListen, c.RaftAddr, c.Listen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	c.LogCount, c.GroupCount = 2, 8
	return c
}

// logBuffer collects log lines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func startDaemon(t *testing.T, c Config) (*Daemon, *logBuffer) {
	t.Helper()
	out := new(logBuffer)
	d, err := Start(t.Context(), c, slog.New(slog.NewTextHandler(out, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close(context.Background()) })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := d.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	return d, out
}

// mustNotStart checks why a daemon does not start.
func mustNotStart(t *testing.T, c Config, want ...string) {
	t.Helper()
	d, err := Start(t.Context(), c, slog.New(slog.DiscardHandler))
	if err == nil {
		d.Close(context.Background())
		t.Fatalf("started, and should say %q", want)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error is\n  %v\nand should say\n  %s", err, w)
		}
	}
}

func TestStartAndClose(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.NativeUnix = filepath.Join(t.TempDir(), "p.sock")
	d, out := startDaemon(t, cfg)
	if d.UnixAddr() != cfg.NativeUnix || strings.HasSuffix(d.Addr(), ":0") {
		t.Errorf("addresses %q and %q", d.Addr(), d.UnixAddr())
	}
	tcp := dial(t, "tcp", d.Addr(), wire.Hello{})
	unix := dial(t, "unix", d.UnixAddr(), wire.Hello{})
	token := tcp.mustLock("me", "tenant:/acme/projects/42", 0)
	unix.mustHold("tenant:/acme/projects/42", "me")

	top := unix.ask(&wire.Request{Op: wire.OpTopology}).List.Topology
	if len(top.Nodes) != 1 || top.Nodes[0].Native != d.Addr() {
		t.Errorf("topology says %+v, the daemon listens on %s", top.Nodes, d.Addr())
	}
	if b := d.banner(); !strings.Contains(b, d.Addr()) || !strings.Contains(b, cfg.DataDir) ||
		!strings.Contains(b, "bin/pathlock acquire tenant:/acme/projects/42 --ttl 30s --addr "+d.Addr()+"\n") ||
		!strings.Contains(b, "1 locks held") {
		t.Errorf("the banner is\n%s", b)
	}

	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	for _, c := range []*client{tcp, unix} {
		f, err := c.read()
		if err != nil || f.id != 0 || wire.PushKind(f.code) != wire.PushGoodbye {
			t.Fatalf("read %+v, %v; want a goodbye", f, err)
		}
		if bye, _ := wire.DecodeGoodbye(&f.r, f.n); bye.Code != wire.Unavailable {
			t.Errorf("goodbye: %v", bye)
		}
	}
	if _, err := os.Stat(cfg.NativeUnix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	for _, msg := range []string{"msg=starting", "msg=ready", "msg=draining", "msg=stopped"} {
		if strings.Count(out.String(), msg) != 1 {
			t.Errorf("the log should say %s once:\n%s", msg, out)
		}
	}

	again, out := startDaemon(t, cfg)
	c := dial(t, "unix", again.UnixAddr(), wire.Hello{})
	c.mustHold("tenant:/acme/projects/42", "me")
	if next := c.mustLock("you", "tenant:/acme/projects/43", 0); next <= token {
		t.Errorf("token %d after %d", next, token)
	}
	if !strings.Contains(out.String(), "recovered_locks=1") {
		t.Errorf("the log should say what was recovered:\n%s", out)
	}
}

func TestDefaultPortTaken(t *testing.T) {
	if l, err := net.Listen("tcp", defaults.NativeListen); err == nil {
		defer l.Close()
	} else if !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatal(err)
	}
	cfg := testConfig(t)
	cfg.NativeListen = defaults.NativeListen // as good as not configured
	cfg.NativeUnix = filepath.Join(t.TempDir(), "p.sock")
	d, out := startDaemon(t, cfg)
	if d.Addr() != "" {
		t.Errorf("listens on %s", d.Addr())
	}
	if !strings.Contains(out.String(), "the native protocol over TCP is off: its default port is taken") {
		t.Errorf("no warning:\n%s", out)
	}
	dial(t, "unix", d.UnixAddr(), wire.Hello{}).mustLock("me", "t:/a/x", 0)

	dev := testConfig(t)
	dev.Dev, dev.NativeListen = true, defaults.NativeListen
	mustNotStart(t, dev, "native_listen: 127.0.0.1:50050 is taken: stop what listens there, or use another port, "+
		"such as --native_listen=127.0.0.1:0")
	given := testConfig(t)
	given.NativeListen, given.set = defaults.NativeListen, map[string]string{"native_listen": "a file"}
	mustNotStart(t, given, "native_listen: 127.0.0.1:50050 is taken")
	if _, err := os.Stat(filepath.Join(given.DataDir, "identity.json")); err == nil {
		t.Error("a start that failed for its port founded a cluster")
	}
}

func TestPortsTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg := testConfig(t)
	cfg.NativeListen = l.Addr().String()
	mustNotStart(t, cfg, "native_listen: "+cfg.NativeListen+" is taken")
	cfg = testConfig(t)
	cfg.RaftAddr = l.Addr().String()
	mustNotStart(t, cfg, "raft_addr: "+cfg.RaftAddr+" is taken: stop what listens there, or use another port")
	cfg = testConfig(t)
	cfg.NativeListen = "192.0.2.1:50050"
	mustNotStart(t, cfg, "native_listen: listen tcp 192.0.2.1:50050", "cannot assign requested address")
	cfg = testConfig(t)
	cfg.NativeUnix = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(cfg.NativeUnix, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mustNotStart(t, cfg, "native_unix: ", "exists and is no socket")
}

func TestDataDirRefused(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	empty := cfg
	empty.Bootstrap = false
	mustNotStart(t, empty, "data_dir "+cfg.DataDir, "empty, and bootstrap is off: set bootstrap = true",
		"pathlockd --dev")

	d, _ := startDaemon(t, cfg)
	mustNotStart(t, cfg, "data_dir "+cfg.DataDir+" is in use by another pathlockd (process ",
		"stop that one, or use another data_dir")
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.GroupCount = 9 }, "was made with group_count = 8, the configuration says 9"},
		{func(c *Config) { c.LogCount = 3 }, "was made with log_count = 2, the configuration says 3"},
		{func(c *Config) { c.Segments = 2 }, "was made with routing_prefix_segments = 1, the configuration says 2"},
		{func(c *Config) { c.Algorithm = "point_rw" },
			"was made with default_lock_algorithm = recursive_rw, the configuration says point_rw"},
		{func(c *Config) { c.ReplicationFactor = 5 }, "was made with replication_factor = 3, the configuration says 5"},
		{func(c *Config) { c.NodeID = "pathlockd-1" },
			"was made with node_id = pathlockd-0, the configuration says pathlockd-1"},
	} {
		other := cfg
		c.change(&other)
		mustNotStart(t, other, c.want, "it is fixed at birth; set it back, or use another data_dir")
	}
	// Addresses are not part of what a node is, and existing state resumes without
	// bootstrap.
	moved := cfg
	moved.Bootstrap = false
	startDaemon(t, moved)
}

func TestBadConfigs(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.ReplicationFactor = 4
	mustNotStart(t, cfg, "replication_factor = 4 (Config): must be an odd number from 1 to 15")
	cfg = testConfig(t)
	cfg.Seeds = []string{"a:1"}
	mustNotStart(t, cfg, "seed_nodes: nodes that have peers need internal_auth_token")
	cfg = testConfig(t)
	cfg.DataDir = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(cfg.DataDir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mustNotStart(t, cfg, "data_dir")

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(cancelled, testConfig(t), slog.New(slog.DiscardHandler)); !errors.Is(err, context.Canceled) {
		t.Errorf("a start that was called off: %v", err)
	}
}

func TestHealthOfAFullDisk(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.DiskReserve = 1 << 60
	d, err := Start(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close(context.Background())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	h, err := AskHealth(ctx, Target{"tcp", d.Addr()})
	for err == nil && strings.HasPrefix(h.Detail, "loading") {
		h, err = AskHealth(ctx, Target{"tcp", d.Addr()})
	}
	if err != nil || h.OK || h.NodeID != "pathlockd-0" || !strings.Contains(h.Detail, "below disk_reserve_bytes") {
		t.Errorf("health %+v, %v", h, err)
	}
	if err := d.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := d.WaitReady(ctx); err == nil {
		t.Error("ready, with a full disk")
	}
}

func TestLogFileIsOpenedAnew(t *testing.T) {
	cfg := DefaultConfig()
	cfg.LogFile = filepath.Join(t.TempDir(), "p.log")
	log, reopen, err := openLog(&cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	log.Info("first")
	if err := os.Rename(cfg.LogFile, cfg.LogFile+".1"); err != nil {
		t.Fatal(err)
	}
	log.Info("second")
	if err := reopen(); err != nil {
		t.Fatal(err)
	}
	log.Info("third")
	log.Debug("not logged")
	for name, want := range map[string]int{cfg.LogFile + ".1": 2, cfg.LogFile: 1} {
		b, err := os.ReadFile(name)
		if err != nil || bytes.Count(b, []byte("\n")) != want {
			t.Errorf("%s has %q, want %d lines (%v)", name, b, want, err)
		}
	}
	cfg.LogFile = "/no/such/dir/p.log"
	if _, _, err := openLog(&cfg, nil); err == nil ||
		!strings.HasPrefix(err.Error(), "log_file: open /no/such/dir/p.log") {
		t.Errorf("error %v", err)
	}
}
