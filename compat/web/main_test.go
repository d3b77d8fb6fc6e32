package web

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	gvfs "github.com/lni/vfs"
	"go.uber.org/goleak"

	"github.com/pathlockd/pathlockd/compat"
	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/internal/testkit/server"
)

// TestMain ends the node that the tests share, and looks for goroutines that
// somebody left behind.
func TestMain(m *testing.M) {
	before := goleak.IgnoreCurrent()
	code := m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, "close the node:", err)
		code = 1
	}
	if code == 0 {
		err := goleak.Find(before)
		for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); {
			err = goleak.Find(before) // net/http keeps a connection that it closed for half a second
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "left running after everything was closed:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// shared is one node for all tests: what they lock has names of their own.
var shared sharedNode

type sharedNode struct {
	once sync.Once
	node *groups.Node
	dir  string
	err  error
}

// get answers the node, started when it is first asked for.
func (s *sharedNode) get(t testing.TB) *groups.Node {
	t.Helper()
	s.once.Do(func() {
		if s.dir, s.err = os.MkdirTemp("", "web"); s.err != nil {
			return
		}
		s.node, s.err = openNode(t, s.dir)
	})
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.node
}

func openNode(t testing.TB, dir string) (*groups.Node, error) {
	t.Helper()
	node, err := groups.Open(groups.Config{
		DataDir: dir, RaftAddr: freePort(t), Bootstrap: true, Segments: 1, GroupCount: 16, LogCount: 2,
		ElectionMin: 300 * time.Millisecond, Heartbeat: 50 * time.Millisecond, MaxQueued: 1 << 20,
		RaftFS: gvfs.NewMem(), FS: vfs.NewMem(), Log: quiet,
	})
	if err == nil && !node.WaitReady(patience) {
		err = fmt.Errorf("the node is not ready")
	}
	return node, err
}

func (s *sharedNode) close() error {
	if s.node == nil {
		return nil
	}
	err := s.node.Close(5 * time.Second)
	if e := os.RemoveAll(s.dir); err == nil {
		err = e
	}
	return err
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

// certificate is what the tests' servers show, and pool what trusts it.
var certificate, pool = selfSigned()

func selfSigned() (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"},
		DNSNames:    []string{"localhost", "locks.test", "*.nodes.test"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour),
		IsCA:     true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	trust := x509.NewCertPool()
	trust.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, trust
}

// face is a server of a test, over the shared node.
type face struct {
	*Server
	svc  *compat.Service
	addr string // of HTTP/1.1 and 2
	url  string
}

// serve starts a server. What a test wants otherwise, it changes before.
func serve(t testing.TB, change func(*Options, *limits)) *face {
	t.Helper()
	return serveNode(t, shared.get(t), change)
}

func serveNode(t testing.TB, node *groups.Node, change func(*Options, *limits)) *face {
	t.Helper()
	svc := compat.NewService(node, compat.Options{NodeID: node.NodeID(), ClusterID: node.ClusterID()})
	opt := Options{
		Service: svc, TLS: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		InFlight: 256, Log: quiet, RequestTimeout: patience,
	}
	lim := defaultLimits(opt.RequestTimeout)
	if change != nil {
		change(&opt, &lim)
	}
	s, err := newServer(opt, lim)
	if err != nil {
		t.Fatal(err)
	}
	addr, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &face{s, svc, addr, "https://" + addr}
}

// client makes an HTTP client: of HTTP/2 when h2 is set, else of HTTP/1.1.
func client(t testing.TB, h2 bool) *http.Client {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(!h2)
	tr.Protocols.SetHTTP2(h2)
	t.Cleanup(tr.CloseIdleConnections)
	tr.MaxIdleConnsPerHost = 128
	return &http.Client{Transport: tr, Timeout: patience}
}

// response is an answer, read.
type response struct {
	*http.Response
	body string
}

// send sends a request. Headers come in pairs.
func (f *face) send(t testing.TB, c *http.Client, method, path, body string, headers ...string) response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, f.url+path, in)
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header[headers[i]] = []string{headers[i+1]}
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: read the answer: %v", method, path, err)
	}
	return response{res, string(bytes.TrimSuffix(got, []byte("\n")))}
}

// post calls a route with JSON.
func (f *face) post(t testing.TB, c *http.Client, rpc, body string, headers ...string) response {
	t.Helper()
	return f.send(t, c, http.MethodPost, prefix+rpc, body, headers...)
}

// patience bounds what a test waits for: it is for machines that do much else.
const patience = 90 * time.Second

// await polls until ok, or fails.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	late := time.After(patience)
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !ok() {
		select {
		case <-late:
			t.Fatal("waited in vain: " + what)
		case <-look.C:
		}
	}
}

// within bounds what a test waits for.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
