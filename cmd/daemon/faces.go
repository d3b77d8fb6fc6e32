package daemon

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/pathlockd/pathlockd/compat"
	"github.com/pathlockd/pathlockd/compat/web"
	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/internal/certs"
	"github.com/pathlockd/pathlockd/wire"
)

// faces are the interfaces beside the native one: gRPC, and JSON and event streams
// over HTTP. They are views of one service over the node.
type faces struct {
	svc   *compat.Service
	grpc  *compat.Server // nil when off
	web   *web.Server    // nil when off
	certs *certs.Store   // nil when nothing is served over TLS
	untap func()
	tls   *tls.Config // nil when nothing is served over it

	addr, webAddr, h3Addr string // "" when off
}

// openFaces makes what the configuration asks for, and listens.
func (d *Daemon) openFaces() error {
	c, f := &d.cfg, &d.faces
	f.svc = compat.NewService(d.node, compat.Options{
		NodeID: d.node.NodeID(), ClusterID: d.node.ClusterID(), NewSession: d.node.NewSession,
	})
	if err := d.openCerts(); err != nil {
		return err
	}
	conf := f.tls
	var err error
	if c.Listen != "" {
		opt := c.grpc()
		opt.Log = d.log
		if c.ListenTLS {
			opt.TLS = conf
		}
		f.grpc = compat.NewServer(f.svc, opt)
		if f.addr, err = f.grpc.Listen(c.Listen); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
	}
	if c.WebListen == "" && c.H3Listen == "" {
		return nil
	}
	opt := c.web()
	opt.Service, opt.TLS, opt.Log = f.svc, conf, d.log
	opt.Events = d.openEvents()
	if f.web, err = web.New(opt); err != nil {
		return fmt.Errorf("web_listen: %w", err)
	}
	if c.H3Listen != "" {
		if f.h3Addr, err = f.web.ListenH3(c.H3Listen); err != nil {
			return fmt.Errorf("h3_listen: %w", err)
		}
	}
	if c.WebListen != "" {
		if f.webAddr, err = f.web.Listen(c.WebListen); err != nil {
			return fmt.Errorf("web_listen: %w", err)
		}
	}
	return nil
}

// openCerts finds out how TLS is done, unless that is known already or nothing is
// served over it.
func (d *Daemon) openCerts() (err error) {
	c := &d.cfg
	if d.faces.tls != nil || c.WebListen == "" && c.H3Listen == "" && (c.Listen == "" || !c.ListenTLS) {
		return nil
	}
	store, err := certs.Open(c.TLSCertPath, c.TLSKeyPath, c.DataDir, d.log)
	if err != nil {
		return fmt.Errorf("tls_cert_path = %q, tls_key_path = %q: %w", c.TLSCertPath, c.TLSKeyPath, err)
	}
	if c.TLSClientCAPath != "" {
		if err := store.VerifyClients(c.TLSClientCAPath); err != nil {
			return fmt.Errorf("tls_client_ca_path = %q: %w", c.TLSClientCAPath, err)
		}
	}
	d.faces.certs, d.faces.tls = store, store.Config()
	return nil
}

// Numbers of events are below 2^53. The lower 32 bits count within one run of a node;
// above them stand which node it is and, highest, which of its runs: so numbers of
// another node, or of another run, are known for such and mean a gap.
const (
	maxStarts = 1 << 11 // runs after which they begin anew
	maxSeats  = 1 << 10 // nodes that are told apart for certain if their names differ in the number alone
)

// runOf tells the runs of all nodes of a cluster apart, by the node's count of them. The first run of pathlockd-0 is
// number 0.
func runOf(node string, run uint64) uint64 {
	name := strings.TrimRight(node, "0123456789")
	number, _ := strconv.ParseUint(node[len(name):], 10, 64)
	seat := (number ^ xxh3.HashString(name) ^ xxh3.HashString("pathlockd-")) % maxSeats
	return (run-1)%maxStarts*maxSeats + seat
}

// openEvents makes the log of events that streams are read from, and has it filled.
// Numbers go on behind all that earlier runs of the node can have given.
func (d *Daemon) openEvents() *web.EventLog {
	before := runOf(d.node.NodeID(), d.node.Run())
	log := web.NewEventLog(d.cfg.WebEvents, before<<32)
	d.faces.untap = d.node.Tap(func(e engine.Event, _ wire.Position) {
		if wire.DefaultEvents&(1<<e.Kind) != 0 {
			log.Add(e.Owner, e.Kind)
		}
	}, log.Miss)
	return log
}

// reload reads again what may have changed: certificates.
func (d *Daemon) reload() (err error) {
	for _, store := range []*certs.Store{d.faces.certs, d.linkCerts} {
		if store != nil {
			err = errors.Join(err, store.Reload())
		}
	}
	return err
}

// closeFaces ends them at once.
func (d *Daemon) closeFaces() {
	f := &d.faces
	if f.untap != nil {
		f.untap()
		f.untap = nil
	}
	if f.grpc != nil {
		f.grpc.Close()
	}
	if f.web != nil {
		f.web.Close()
	}
}

// partFaces lets the clients go, until ctx ends.
func (d *Daemon) partFaces(ctx context.Context) {
	f := &d.faces
	var all sync.WaitGroup
	if f.grpc != nil {
		all.Go(func() { f.grpc.Drain(ctx) })
	}
	if f.web != nil {
		all.Go(func() { f.web.Drain(ctx) })
	}
	all.Wait()
}

// GRPCAddr is the address of gRPC, host:port, "" when that is off.
func (d *Daemon) GRPCAddr() string { return d.faces.addr }

// WebAddr is the address of HTTP/1.1 and 2, "" when that is off.
func (d *Daemon) WebAddr() string { return d.faces.webAddr }

// H3Addr is the address of HTTP/3, "" when that is off.
func (d *Daemon) H3Addr() string { return d.faces.h3Addr }

// where tells in the log where the daemon serves.
func (d *Daemon) where() []any {
	f := &d.faces
	return []any{
		"native", cmp.Or(d.addr, off), "unix", cmp.Or(d.unix, off), "grpc", cmp.Or(f.addr, off),
		"web", cmp.Or(f.webAddr, off), "h3", cmp.Or(f.h3Addr, off),
	}
}

// grpc is the configuration of the gRPC server.
func (c *Config) grpc() compat.ServerOptions {
	return compat.ServerOptions{InFlight: c.MaxConcurrent, Connections: c.shares(openFiles()).grpc}
}

// web is the configuration of the web interfaces.
func (c *Config) web() web.Options {
	return web.Options{
		Plain: c.WebJSON == "plain", IgnoreUnknown: c.WebUnknown == "ignore", Origins: c.WebOrigins,
		Hosts: []string{c.PublicAddr}, ZeroRTT: c.WebZeroRTT,
		InFlight: c.MaxConcurrent, RequestTimeout: c.RequestTimeout, Connections: c.shares(openFiles()).web,
	}
}
