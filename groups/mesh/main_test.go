package mesh

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pathlockd/pathlockd/groups/gossip"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

const (
	token    = gossip.Token("a token that is only used in tests")
	clusterA = "11111111-1111-4111-8111-111111111111"
	clusterB = "22222222-2222-4222-8222-222222222222"
)

func TestMain(m *testing.M) {
	code := m.Run()
	err := goleak.Find()
	for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); {
		err = goleak.Find()
	}
	if err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if strings.Contains(everything.String(), string(token)) {
		fmt.Fprintln(os.Stderr, "a token was logged")
		code = 1
	}
	os.Exit(code)
}

// journal keeps what was logged.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.String()
}

var everything = new(journal)

type both struct{ one, other *journal }

func (b both) Write(p []byte) (int, error) {
	_, _ = b.one.Write(p)
	return b.other.Write(p)
}

// end is a mesh under test, and what it was told.
type end struct {
	*Mesh
	host   string
	log    *journal
	frames chan string // unless Frame was set
	opened chan *Conn
	closed chan ending
}

type ending struct {
	c   *Conn
	err error
}

// quick makes an end give up on a silent peer soon.
func quick(c *Config) {
	c.timing = timing{alive: 100 * time.Millisecond, silence: 2500 * time.Millisecond}
}

// open starts node n. It is patient unless told otherwise: the machine may be busy.
func open(t testing.TB, n int, options ...func(*Config)) *end {
	t.Helper()
	e := &end{log: new(journal), frames: make(chan string, 1<<16), opened: make(chan *Conn, 64),
		closed: make(chan ending, 64)}
	c := Config{
		Cluster: clusterA, Node: fmt.Sprintf("node-%d", n), Host: fmt.Sprintf("host-%d", n), Token: token,
		Listen: "127.0.0.1:0",
		Log:    slog.New(slog.NewTextHandler(both{e.log, everything}, nil)),
		Frame:  func(_ *Conn, f []byte) { e.frames <- string(f) },
		Opened: func(c *Conn) { e.opened <- c },
		Closed: func(c *Conn, err error) { e.closed <- ending{c, err} },
		timing: timing{silence: patience, stall: patience},
	}
	for _, o := range options {
		o(&c)
	}
	e.host = c.Host
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	e.Mesh = m
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// answering makes an end send every frame back on the connection that it came on.
func answering(c *Config) { c.Frame = func(c *Conn, f []byte) { c.Send(f) } }

// to answers the connection from one end to another.
func (e *end) to(t testing.TB, other *end) *Conn {
	t.Helper()
	var c *Conn
	eventually(t, "a connection", func() bool { c = e.Conn(other.host, other.Addr()); return c != nil })
	return c
}

// within waits for something from a channel.
func within[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited %s for %s", patience, what)
		panic("unreachable")
	}
}

// eventually waits until something is so.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		if so() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("waited %s for: %s", patience, what)
		}
	}
}

func (e *end) logged(t testing.TB, words string) {
	t.Helper()
	eventually(t, "a log line with: "+words, func() bool { return strings.Contains(e.log.String(), words) })
}

// live counts the connections of an end.
func (e *end) live() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.mu.live)
}

// selfSigned is an operator's configuration with one certificate for all nodes, which
// signs itself.
func selfSigned(t testing.TB) *tls.Config {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(c)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, RootCAs: pool, ClientCAs: pool,
		MinVersion: tls.VersionTLS13, DynamicRecordSizingDisabled: true,
	}
}
