package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/internal/certs"
	"github.com/pathlockd/pathlockd/loop"
)

// Daemon is a running pathlockd.
type Daemon struct {
	cfg    Config
	log    *slog.Logger
	node   *groups.Node
	server *loop.Server
	unlock func()
	addr   string // native over TCP, "" when off
	unix   string

	reserved  reserved
	faces     faces
	linkCerts *certs.Store // of links between nodes, nil when internal_auth_token makes them
	began     time.Time

	ready   chan struct{} // closed when it serves
	took    time.Duration // from Start to ready; set before ready is closed
	stop    chan struct{} // closed when Close begins
	closing sync.Once
	err     error // of Close
}

// Start assembles a daemon and begins to serve; ctx bounds the start and nothing
// else. Requests that come before the daemon is ready wait until it is
// (WaitReady). cfg is DefaultConfig with changes, or what Load answered. A port of
// 0 in NativeListen or RaftAddr means any free one.
func Start(ctx context.Context, cfg Config, log *slog.Logger) (*Daemon, error) {
	if log == nil {
		log = slog.Default()
	}
	cfg = cfg.resolved()
	if err := cfg.checkAll(); err != nil {
		return nil, err
	}
	warnAbout(log, append(cfg.notices(), tuningFiles()...))
	d := &Daemon{
		cfg: cfg, log: log, unlock: func() {}, began: time.Now(),
		ready: make(chan struct{}), stop: make(chan struct{}),
	}
	if err := d.open(ctx); err != nil {
		d.abandon()
		return nil, err
	}
	go d.awaitReady()
	return d, nil
}

func warnAbout(log *slog.Logger, warnings []string) {
	for _, w := range warnings {
		log.Warn(w)
	}
}

// tuningFiles warns of files that change how raft works when they lie in the
// working directory.
func tuningFiles() (warnings []string) {
	for _, name := range []string{"dragonboat-soft-settings.json", "dragonboat-hard-settings.json"} {
		if _, err := os.Stat(name); err == nil {
			warnings = append(warnings, "the file "+name+
				" in the working directory changes how logs are replicated: remove it unless it was put "+
				"there on purpose")
		}
	}
	return warnings
}

// open brings everything up, from the inside out.
func (d *Daemon) open(ctx context.Context) (err error) {
	c := &d.cfg
	if d.unlock, err = lockDataDir(ctx, c.DataDir, c.Bootstrap || len(c.Seeds) > 0); err != nil {
		d.unlock = func() {}
		return err
	}
	if err := d.chooseAddrs(); err != nil {
		return err
	}
	d.log.Info("starting", "version", Version(), "commit", revision(), "config", c.fileName, "node_id", c.NodeID,
		"data_dir", absolute(c.DataDir),
		"raft", c.RaftAddr)
	if c.TLSCertPath != "" { // a start that fails for a file should not have founded a cluster
		if err := d.openCerts(); err != nil {
			return err
		}
	}
	told := toldAddr(d.addr, c.PublicAddr)
	if told != d.addr && !c.given("public_addr") {
		d.log.Warn("clients are told to come to "+told+
			", which means something else on other hosts: set public_addr to a name of this one",
			"native_listen", d.addr)
	}
	cfg := c.groups(told)
	cfg.Log = d.log
	if cfg.LinkTLS, err = d.openLinkTLS(); err != nil {
		return err
	}
	if d.node, err = groups.OpenContext(ctx, cfg); err != nil {
		if errors.Is(err, datadir.ErrNoIdentity) {
			err = fmt.Errorf("%w (to try pathlockd out: pathlockd --dev)", err)
		}
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	opt := c.loop()
	opt.NodeID, opt.ClusterID, opt.Log = d.node.NodeID(), d.node.ClusterID(), d.log
	if d.server, err = loop.New(d.node, opt); err != nil {
		return err
	}
	if l := d.reserved.hand(); l != nil {
		err = d.server.Serve(l)
	} else if d.addr != "" {
		_, err = d.server.Listen("tcp", d.addr)
	}
	if err != nil {
		return fmt.Errorf("native_listen: %w", err)
	}
	if c.NativeUnix != "" {
		if _, err := d.server.Listen("unix", c.NativeUnix); err != nil {
			return fmt.Errorf("native_unix: %w", err)
		}
		d.unix = c.NativeUnix
	}
	return d.openFaces()
}

// abandon undoes a start that failed.
func (d *Daemon) abandon() {
	d.reserved.release()
	d.closeFaces()
	if d.server != nil {
		d.server.Close()
	}
	if d.node != nil {
		d.node.Close(0)
	}
	d.unlock()
}

// chooseAddrs finds out, before anything is made, where the daemon can listen: a
// start that fails for a port should not have founded a cluster.
func (d *Daemon) chooseAddrs() (err error) {
	c := &d.cfg
	if c.NativeListen != "" {
		d.addr, err = d.choose("native_listen", c.NativeListen, d.reserved.free)
		if errors.Is(err, syscall.EADDRINUSE) && !c.Dev && !c.given("native_listen") {
			d.addr, err = "", nil
			d.log.Warn("the native protocol over TCP is off: its default port is taken; set native_listen to serve it",
				"native_listen", c.NativeListen)
			if c.NativeUnix == "" && c.Listen == "" && c.WebListen == "" && c.H3Listen == "" {
				d.log.Warn("no client can reach this node: no interface is left")
			}
		}
		if err != nil {
			return err
		}
	}
	if c.Listen, err = d.choose("listen", c.Listen, free); err != nil {
		return err
	}
	if c.WebListen, err = d.choose("web_listen", c.WebListen, free); err != nil {
		return err
	}
	if c.H3Listen, err = d.choose("h3_listen", c.H3Listen, freeUDP); err != nil {
		return err
	}
	if c.Token != "" { // other nodes are served
		for _, l := range []struct {
			key, addr string
			free      func(string) (string, error)
		}{{"gossip_addr", c.GossipAddr, free}, {"gossip_addr", c.GossipAddr, freeUDP},
			{"link_addr", c.LinkAddr, free}} {
			if _, err := d.choose(l.key, l.addr, l.free); err != nil {
				return err
			}
		}
	}
	c.RaftAddr, err = d.choose("raft_addr", c.RaftAddr, free)
	return err
}

// reserved keeps a port that was chosen for the native protocol, which clients are
// told of before it is served, from being given to somebody else meanwhile.
type reserved struct{ l net.Listener }

// free is free, but keeps the port if it is chosen here.
func (r *reserved) free(addr string) (chosen string, err error) {
	if anyPort(addr) != addr {
		return free(addr)
	}
	if r.l, err = net.Listen("tcp", addr); err != nil {
		return "", err
	}
	return withPortOf(addr, r.l.Addr())
}

// hand hands the listener over, nil if there is none.
func (r *reserved) hand() net.Listener {
	l := r.l
	r.l = nil
	return l
}

func (r *reserved) release() {
	if r.l != nil {
		_ = r.l.Close()
		r.l = nil
	}
}

// choose answers where to listen for a key, "" when it is off.
func (d *Daemon) choose(name, addr string, free func(string) (string, error)) (string, error) {
	if addr == "" || anyPort(addr) == addr && name != "native_listen" && name != "raft_addr" {
		return addr, nil // a port is chosen when it is listened on, and told then
	}
	chosen, err := free(addr)
	switch {
	case err == nil:
		return chosen, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return "", &takenError{name, addr, err}
	}
	return "", fmt.Errorf("%s: %w", name, err)
}

// takenError is an address at which somebody else listens.
type takenError struct {
	key, addr string
	err       error
}

func (e *takenError) Error() string {
	return fmt.Sprintf("%s: %s is taken: stop what listens there, or use another port, such as --%s=%s", e.key, e.addr,
		e.key, anyPort(e.addr))
}

func (e *takenError) Unwrap() error { return e.err }

// free answers addr if it can be listened on, with a port of its own if it has
// none.
func free(addr string) (string, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", err
	}
	defer l.Close()
	return withPortOf(addr, l.Addr())
}

// withPortOf answers addr, with the port that is listened on if it has none.
func withPortOf(addr string, on net.Addr) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err == nil && port == "0" {
		_, port, err = net.SplitHostPort(on.String())
	}
	return net.JoinHostPort(host, port), err
}

// freeUDP is free for UDP.
func freeUDP(addr string) (string, error) {
	c, err := net.ListenPacket("udp", addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	host, port, err := net.SplitHostPort(addr)
	if err == nil && port == "0" {
		_, port, err = net.SplitHostPort(c.LocalAddr().String())
	}
	return net.JoinHostPort(host, port), err
}

// anyPort is addr with port 0.
func anyPort(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	return net.JoinHostPort(host, "0")
}

// toldAddr is the address at which clients are told to find the native protocol:
// where it listens, at the host of public_addr if it listens on every interface.
func toldAddr(listen, public string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host, _, _ = net.SplitHostPort(public)
	}
	return net.JoinHostPort(host, port)
}

// absolute is a path for people who do not know the working directory.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// waitSlice is how long the node is asked to wait at a time for being ready.
const waitSlice = 10 * time.Second

// awaitReady says when the daemon serves, and why it does not yet if that takes
// long.
func (d *Daemon) awaitReady() {
	for !d.node.WaitReady(waitSlice) {
		select {
		case <-d.stop:
			return
		default:
			_, why := d.node.Health()
			d.log.Warn("not ready yet", "why", why, "after", time.Since(d.began).Round(time.Second).String())
		}
	}
	d.took = time.Since(d.began)
	s := d.node.Stats()
	d.log.Info("ready", append([]any{"node_id", d.node.NodeID(), "cluster_id", d.node.ClusterID(),
		"recovered_locks", s.Locks, "recovered_waiting", s.Waiting, "took_ms", d.took.Milliseconds()}, d.where()...)...)
	close(d.ready)
}

// WaitReady waits until the daemon serves: every log is loaded and has a leader.
func (d *Daemon) WaitReady(ctx context.Context) error {
	select {
	case <-d.ready:
		return nil
	case <-d.stop:
		return errors.New("the daemon was closed before it was ready")
	case <-ctx.Done():
		return fmt.Errorf("wait for the daemon to be ready: %w", ctx.Err())
	}
}

// Addr is the address of the native protocol over TCP, host:port, "" when that is
// off.
func (d *Daemon) Addr() string { return d.addr }

// UnixAddr is the path of the native protocol's socket, "" when that is off.
func (d *Daemon) UnixAddr() string { return d.unix }

// Node is the node inside, for faces that are assembled over it.
func (d *Daemon) Node() *groups.Node { return d.node }
