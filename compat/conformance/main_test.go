// Package conformance_test runs the scenarios of testdata through every interface of
// the server, and expects the same answers of each.
package conformance_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	gvfs "github.com/lni/vfs"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/pathlockd/pathlockd/compat"
	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
	"github.com/pathlockd/pathlockd/compat/web"
	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/internal/certs"
	"github.com/pathlockd/pathlockd/internal/testkit/server"
	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// TestMain ends the nodes that the tests share, and looks for goroutines that
// somebody left behind.
func TestMain(m *testing.M) {
	flag.Parse()
	// Scenarios wait more than they work: for leases to end, for calls to be granted.
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err)
	}
	before := goleak.IgnoreCurrent()
	code := m.Run()
	for name, n := range nodes {
		if err := n.close(); err != nil {
			fmt.Fprintln(os.Stderr, "close the node", name+":", err)
			code = 1
		}
	}
	if code == 0 {
		err := goleak.Find(before)
		for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); {
			err = goleak.Find(before) // what ends by itself may take its time where much else is done
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "left running after everything was closed:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// nodes are what scenarios run on, by the names they choose them by.
var nodes = map[string]*node{
	"main":  {config: groups.Config{Segments: 1}},
	"two":   {config: groups.Config{Segments: 2, Algorithm: wire.PointRW}},
	"whole": {config: groups.Config{Segments: 0}},
	// Its tokens are at their end.
	"end": {config: groups.Config{Segments: 1}},
	// Scenarios go one after the other where they look at all locks, reckon with
	// tokens, or fill the queue of the one group.
	"quiet": {config: groups.Config{Segments: 1}, alone: true},
	"small": {config: groups.Config{Segments: 1, GroupCount: 1, LogCount: 1, MaxQueued: 16}, alone: true},
}

// node is a node with all its servers, started when it is first asked for.
type node struct {
	config groups.Config
	alone  bool

	turn sync.Mutex // of the scenarios of a node that take turns
	once sync.Once
	node *groups.Node
	// behind is the node that does the work when scenarios run on one that hosts nothing.
	behind *groups.Node
	dir    string
	err    error

	native  *loop.Server
	grpc    *compat.Server
	service *compat.Service
	conn    *grpc.ClientConn // to it
	web     *web.Server
	untap   func()
	addrs   map[string]string // by the interface's name

	trust   *tls.Config // what web clients trust
	clients map[string]*http.Client
	drops   []func()
}

func (n *node) get(t testing.TB) *node {
	t.Helper()
	n.once.Do(func() { n.err = n.open(t) })
	if n.err != nil {
		t.Fatal(n.err)
	}
	return n
}

func (n *node) open(t testing.TB) (err error) {
	if n.dir, err = os.MkdirTemp("", "conformance"); err != nil {
		return err
	}
	c := n.config
	c.DataDir, c.RaftAddr, c.Bootstrap, c.Log = n.dir, freePort(t), true, quiet
	c.ElectionMin, c.Heartbeat = 300*time.Millisecond, 50*time.Millisecond
	c.RaftFS, c.FS = gvfs.NewMem(), vfs.NewMem()
	if c.GroupCount == 0 {
		c.GroupCount, c.LogCount = 16, 2
	}
	if forwarded {
		c.Token, c.GossipAddr, c.OneHost = "0123456789abcdef0123456789abcdef", freePort(t), true
		c.StabilityWindow = time.Hour // the one in front is given nothing
	}
	if n.node, err = groups.Open(c); err != nil {
		return err
	}
	if !n.node.WaitReady(90 * time.Second) {
		return errors.New("the node is not ready")
	}
	if forwarded {
		if err := n.front(t, c); err != nil {
			return err
		}
	}
	return n.serve()
}

// forwarded has scenarios run on a node that holds nothing, so that every request goes to
// another one.
var forwarded = os.Getenv("PATHLOCKD_FORWARDED") != ""

// front puts a node that hosts no log in front of the one that does.
func (n *node) front(t testing.TB, c groups.Config) (err error) {
	c.Seeds, c.Bootstrap = []string{c.GossipAddr}, false
	c.NodeID, c.DataDir = "pathlockd-1", filepath.Join(n.dir, "front")
	c.RaftAddr, c.GossipAddr = freePort(t), "127.0.0.1:0"
	c.RaftFS, c.FS = gvfs.NewMem(), vfs.NewMem()
	n.behind = n.node
	if n.node, err = groups.Open(c); err != nil {
		return err
	}
	if !n.node.WaitReady(90 * time.Second) {
		return errors.New("the node in front is not ready")
	}
	return n.fed()
}

// fed waits until the node in front, which hosts no log, is told of events of each: until then subscribers may miss
// some, and are told that they did.
func (n *node) fed() error {
	heard := make(chan string, 1024)
	defer n.node.Tap(func(e engine.Event, _ wire.Position) {
		select {
		case heard <- e.Owner:
		default:
		}
	}, func() {})()
	svc := compat.NewService(n.node, compat.Options{})
	late := time.After(90 * time.Second)
	for i := range 8 { // their notices are in different logs
		for owner, at := fmt.Sprint("fed-", i), ""; at != owner; {
			if _, err := svc.ForceRelease(context.Background(), &pb.ForceReleaseRequest{VictimId: owner}); err != nil {
				return err
			}
			select {
			case at = <-heard:
			case <-time.After(50 * time.Millisecond):
			case <-late:
				return errors.New("the node in front is told of no events")
			}
		}
	}
	return nil
}

// serve opens every interface on the node.
func (n *node) serve() (err error) {
	n.addrs = make(map[string]string)
	n.native, err = loop.New(n.node, loop.Options{
		NodeID: n.node.NodeID(), ClusterID: n.node.ClusterID(), Version: "test", RepeatMillis: groups.RepeatMillis,
		Log: quiet,
	})
	if err != nil {
		return err
	}
	addr, err := n.native.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	n.addrs["native"] = addr.String()
	n.service = compat.NewService(n.node, compat.Options{NodeID: n.node.NodeID(), ClusterID: n.node.ClusterID()})
	n.grpc = compat.NewServer(n.service, compat.ServerOptions{Log: quiet})
	if n.addrs["grpc"], err = n.grpc.Listen("127.0.0.1:0"); err != nil {
		return err
	}
	if n.conn, err = dialGRPC(n.addrs["grpc"]); err != nil {
		return err
	}
	return n.serveWeb()
}

// serveWeb opens the JSON facade over each version of HTTP, and a client of each.
func (n *node) serveWeb() error {
	store, err := certs.Open("", "", n.dir, quiet)
	if err != nil {
		return err
	}
	events := web.NewEventLog(1024, 0)
	n.untap = n.node.Tap(func(e engine.Event, _ wire.Position) {
		if wire.DefaultEvents&(1<<e.Kind) != 0 {
			events.Add(e.Owner, e.Kind)
		}
	}, events.Miss)
	n.web, err = web.New(web.Options{
		Service: n.service, TLS: store.Config(), Events: events, Log: quiet, RequestTimeout: 30 * time.Second,
	})
	if err != nil {
		return err
	}
	if n.addrs["http3"], err = n.web.ListenH3("127.0.0.1:0"); err != nil {
		return err
	}
	if n.addrs["http1"], err = n.web.Listen("127.0.0.1:0"); err != nil {
		return err
	}
	n.addrs["http2"] = n.addrs["http1"]
	pem, err := os.ReadFile(store.CertFile())
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	n.trust, n.clients = &tls.Config{RootCAs: pool}, make(map[string]*http.Client)
	for name, w := range webFaces {
		client, drop := dialWeb(w.version, n.trust)
		n.clients[name], n.drops = client, append(n.drops, client.CloseIdleConnections, drop)
	}
	return nil
}

func (n *node) close() error {
	var errs []error
	if n.native != nil {
		errs = append(errs, n.native.Close())
	}
	for _, drop := range n.drops {
		drop()
	}
	if n.web != nil {
		n.web.Close()
		n.untap()
	}
	if n.conn != nil {
		errs = append(errs, n.conn.Close())
	}
	if n.grpc != nil {
		n.grpc.Close()
	}
	if n.node != nil {
		errs = append(errs, n.node.Close(5*time.Second))
		if n.behind != nil {
			errs = append(errs, n.behind.Close(5*time.Second))
		}
		errs = append(errs, os.RemoveAll(n.dir))
	}
	return errors.Join(errs...)
}

var quiet = slog.New(slog.DiscardHandler)

func freePort(t testing.TB) string {
	t.Helper()
	addr, err := server.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// faces are the interfaces, and how a client of each is made.
var faces = []struct {
	name string
	dial func(t testing.TB, n *node) face
}{
	{"native", func(t testing.TB, n *node) face { return newNative(t, n.addrs["native"]) }},
	{"grpc", func(t testing.TB, n *node) face { return &grpcFace{n.addrs["grpc"], n.conn} }},
	{"http1", func(t testing.TB, n *node) face { return newWeb(t, n, "http1") }},
	{"http2", func(t testing.TB, n *node) face { return newWeb(t, n, "http2") }},
	{"http3", func(t testing.TB, n *node) face { return newWeb(t, n, "http3") }},
}
