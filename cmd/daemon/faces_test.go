package daemon

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
)

// dialGRPC connects a stock client.
func dialGRPC(t *testing.T, addr string) pb.PathLockClient {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return pb.NewPathLockClient(conn)
}

// browser is an HTTP client that trusts a certificate.
func browser(t *testing.T, certFile string) *http.Client {
	t.Helper()
	text, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		t.Fatalf("%s: no certificate", certFile)
	}
	via := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	t.Cleanup(via.CloseIdleConnections)
	return &http.Client{Transport: via, Timeout: patience}
}

// TestFacesDrain: what is open on the interfaces beside the native one is told that
// the node stops, and what was acknowledged there is there after a restart.
func TestFacesDrain(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.WebListen, cfg.H3Listen = "127.0.0.1:0", "127.0.0.1:0"
	d, _ := startDaemon(t, cfg)
	c := dialGRPC(t, d.GRPCAddr())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req := &pb.AcquireRequest{OwnerId: "a", TtlMs: 60_000, Requests: []*pb.LockRequest{{Path: "t:/a/x"}}}
	if res, err := c.Acquire(ctx, req); err != nil || res.Status != pb.AcquireStatus_ACQUIRE_STATUS_OK {
		t.Fatal(res, err)
	}
	sub, err := c.Subscribe(ctx, &pb.SubscribeRequest{OwnerId: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sub.Header(); err != nil {
		t.Fatal(err)
	}
	https := browser(t, filepath.Join(cfg.DataDir, "dev-cert.pem"))
	sse, err := https.Get("https://" + d.WebAddr() + "/v1/events/sse?owner_id=a")
	if err != nil || sse.StatusCode != http.StatusOK {
		t.Fatal(sse, err)
	}
	defer sse.Body.Close()
	waits := make(chan error, 1)
	go func() {
		_, err := c.AcquireWait(ctx, &pb.AcquireRequest{OwnerId: "b", TtlMs: 60_000, QueueTtlMs: 600_000,
			Requests: []*pb.LockRequest{{Path: "t:/a/x"}}})
		waits <- err
	}()
	waiting := func(c pb.PathLockClient) int {
		t.Helper()
		d, err := c.DescribePath(ctx, &pb.DescribePathRequest{Path: "t:/a/x"})
		if err != nil {
			t.Fatal(err)
		}
		return len(d.Waiters)
	}
	for waiting(c) == 0 {
		runtime.Gosched()
	}
	began := time.Now()
	if err := d.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 25*time.Second { // requests get 30 s
		t.Errorf("the drain took %v", took)
	}
	if err := <-waits; status.Code(err) != codes.Unavailable {
		t.Errorf("who waited was told %v", err)
	}
	if _, err := sub.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the subscriber was told %v", err)
	}
	if _, err := io.Copy(io.Discard, sse.Body); err != nil {
		t.Errorf("the event stream ended with %v", err)
	}
	again, _ := startDaemon(t, cfg)
	got, err := dialGRPC(t, again.GRPCAddr()).InspectPath(ctx, &pb.InspectPathRequest{Path: "t:/a/x"})
	if err != nil || got.WriteOwner != "a" {
		t.Errorf("after a restart: %v, %v", got, err)
	}
	if n := waiting(dialGRPC(t, again.GRPCAddr())); n != 0 {
		t.Errorf("%d still wait who were told that nothing was granted", n)
	}
}

// TestEventIDsAcrossRestarts: a stream that comes back with the id of an earlier run
// gets what is new, under ids that are higher than any it saw.
func TestEventIDsAcrossRestarts(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.WebListen = "127.0.0.1:0"
	first := func(d *Daemon, after string) string {
		t.Helper()
		c := dialGRPC(t, d.GRPCAddr())
		if _, err := c.ForceRelease(t.Context(), &pb.ForceReleaseRequest{VictimId: "a"}); err != nil {
			t.Fatal(err)
		}
		res, err := browser(t, filepath.Join(cfg.DataDir, "dev-cert.pem")).Get("https://" + d.WebAddr() +
			"/v1/events/sse?owner_id=a&after=" + after)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		for s := bufio.NewScanner(res.Body); s.Scan(); {
			if data, ok := strings.CutPrefix(s.Text(), "data: {\"id\":"); ok && strings.Contains(data, `"killed"`) {
				id, _, _ := strings.Cut(data, ",")
				return id
			}
		}
		t.Fatal("no event came")
		return ""
	}
	d, _ := startDaemon(t, cfg)
	if id := first(d, "0"); id != "1" {
		t.Errorf("the first event has id %s", id)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	d, _ = startDaemon(t, cfg)
	if id := first(d, "1"); id != "4398046511105" {
		t.Errorf("the first event of the second run has id %s", id)
	}
}

// keyPair writes a certificate and its key, and answers the certificate.
func keyPair(t *testing.T, certFile, keyFile, name string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	like := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, like, like, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der},
		keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return der
}

// TestCertificatesAreReadAgain: SIGHUP has a running daemon use a new certificate, and
// connections go on.
func TestCertificatesAreReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	old := keyPair(t, cert, key, "old.example")
	p := runPathlockd(t, dir, "--dev", "--native_listen=127.0.0.1:0", "--listen_tls", "--tls_cert_path=c.pem",
		"--tls_key_path=k.pem")
	p.ready()
	shown := func(face string) *tls.Conn {
		t.Helper()
		c, err := tls.Dial("tcp", p.logged("ready")[face].(string),
			&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	leaf := func(c *tls.Conn) []byte { return c.ConnectionState().PeerCertificates[0].Raw }
	web := shown("web")
	if !bytes.Equal(leaf(web), old) || !bytes.Equal(leaf(shown("grpc")), old) {
		t.Fatal("another certificate than the configured one is shown")
	}
	renewed := keyPair(t, cert, key, "new.example")
	p.cmd.Process.Signal(syscall.SIGHUP)
	p.logged("SIGHUP: certificates are as their files say")
	if !bytes.Equal(leaf(shown("web")), renewed) || !bytes.Equal(leaf(shown("grpc")), renewed) {
		t.Error("the old certificate is shown after SIGHUP")
	}
	if _, err := web.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
		t.Error(err)
	}
	if n, err := web.Read(make([]byte, 9)); n == 0 {
		t.Errorf("a connection that was open does not go on: %v", err)
	}
	if err := os.WriteFile(cert, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.cmd.Process.Signal(syscall.SIGHUP)
	p.logged("cannot read the certificate again: the one in use stays")
	if !bytes.Equal(leaf(shown("web")), renewed) {
		t.Error("a bad file took the certificate away")
	}
}

// TestClientCertificates: with tls_client_ca_path every interface with TLS asks for one.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	dir := t.TempDir()
	keyPair(t, filepath.Join(dir, "ca.pem"), filepath.Join(dir, "ca-key.pem"), "client")
	cfg.WebListen, cfg.TLSClientCAPath = "127.0.0.1:0", filepath.Join(dir, "ca.pem")
	d, _ := startDaemon(t, cfg)
	dev := filepath.Join(cfg.DataDir, "dev-cert.pem")
	if res, err := browser(t, dev).Get("https://" + d.WebAddr() + "/v1/health"); err == nil {
		res.Body.Close()
		t.Error("a client without a certificate was served")
	}
	with := browser(t, dev)
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "ca.pem"), filepath.Join(dir, "ca-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	with.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{pair}
	res, err := with.Get("https://" + d.WebAddr() + "/v1/health")
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("a client with one: %v, %v", res, err)
	}
	res.Body.Close()
	none := testConfig(t)
	none.WebListen, none.TLSCertPath, none.TLSKeyPath = "127.0.0.1:0", filepath.Join(dir, "no.pem"),
		filepath.Join(dir, "no-key.pem")
	mustNotStart(t, none, "tls_cert_path = ", "no.pem")
	if _, err := os.Stat(filepath.Join(none.DataDir, "identity.json")); err == nil {
		t.Error("a start that failed for a certificate founded a cluster")
	}
	bad := testConfig(t)
	bad.WebListen, bad.TLSClientCAPath = "127.0.0.1:0", filepath.Join(dir, "nothing.pem")
	mustNotStart(t, bad, "tls_client_ca_path", "nothing.pem")
}

// TestTakenPorts: a start that fails for a port says which key, and founds nothing.
func TestTakenPorts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	const token = "0123456789abcdef0123456789abcdef"
	for _, c := range []struct {
		set  func(*Config)
		want string
	}{
		{func(c *Config) { c.Listen = l.Addr().String() }, "listen: " + l.Addr().String() +
			" is taken: stop what listens there, or use another port, such as --listen=127.0.0.1:0"},
		{func(c *Config) { c.WebListen = l.Addr().String() }, "web_listen: " + l.Addr().String() + " is taken"},
		{func(c *Config) { c.H3Listen = u.LocalAddr().String() }, "h3_listen: " + u.LocalAddr().String() + " is taken"},
		{func(c *Config) { c.Token, c.GossipAddr = token, l.Addr().String() }, "gossip_addr: " + l.Addr().String() +
			" is taken"},
		{func(c *Config) { c.Token, c.GossipAddr = token, u.LocalAddr().String() }, "gossip_addr: " +
			u.LocalAddr().String() + " is taken"},
		{func(c *Config) { c.Token, c.GossipAddr, c.LinkAddr = token, "127.0.0.1:0", l.Addr().String() },
			"link_addr: " + l.Addr().String() + " is taken"},
		{func(c *Config) { c.Listen = "192.0.2.1:50051" }, "listen: listen tcp 192.0.2.1:50051"},
	} {
		cfg := testConfig(t)
		c.set(&cfg)
		mustNotStart(t, cfg, c.want)
		if entries, err := os.ReadDir(cfg.DataDir); err == nil && len(entries) > 1 {
			t.Errorf("%s: something was founded: %v", c.want, entries)
		}
	}
}
