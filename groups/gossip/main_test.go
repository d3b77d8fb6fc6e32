package gossip

import (
	"bytes"
	"crypto/tls"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pathlockd/pathlockd/internal/testkit/server"
)

// patience is how long a test waits for what must come. It comes within seconds; a
// machine that is busy elsewhere takes longer.
const patience = 60 * time.Second

const (
	token = Token("a token that is only used in tests")

	clusterA = "11111111-1111-4111-8111-111111111111"
	clusterB = "22222222-2222-4222-8222-222222222222"
)

// TestMain looks for goroutines that are left, and for tokens in what was logged.
func TestMain(m *testing.M) {
	flag.Parse()
	// Tests spend their time waiting for other nodes' timers, not computing.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	code := m.Run()
	// memberlist's prober ends when its last probe does: an interval, up to eight times.
	err := goleak.Find()
	for end := time.Now().Add(patience); err != nil && time.Now().Before(end); {
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

// lines answers the lines that have all words in them.
func (j *journal) lines(words ...string) (found []string) {
	for line := range strings.Lines(j.String()) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			found = append(found, line)
		}
	}
	return found
}

// everything is what all nodes of all tests logged, for debugging too.
var everything = new(journal)

type both struct{ one, other *journal }

func (b both) Write(p []byte) (int, error) {
	_, _ = b.one.Write(p)
	return b.other.Write(p)
}

// node is a node under test.
type node struct {
	*Members
	t      *testing.T
	config Config
	log    *journal
}

// tokenOf is a test's own: nodes of other tests, whose ports may be reused, are
// strangers.
func tokenOf(t *testing.T) Token { return token + Token(fmt.Sprint(t.Name(), os.Getpid())) }

func hostID(n int) string { return fmt.Sprintf("33333333-3333-4333-8333-%012d", n) }

// start starts node n of cluster A with data directory n, changed by the options.
func start(t *testing.T, n int, options ...func(*Config)) *node {
	t.Helper()
	c := Config{
		Self: Record{
			NodeID: fmt.Sprintf("node-%d", n), ClusterID: clusterA, HostID: hostID(n), Incarnation: 1,
			RaftAddr: fmt.Sprintf("10.0.0.%d:50052", n), LinkAddr: fmt.Sprintf("10.0.0.%d:50053", n),
			NativeAddr: fmt.Sprintf("10.0.0.%d:50050", n),
			FormatMin:  1, FormatMax: 2, State: Member,
		},
		Token: tokenOf(t), Bind: "127.0.0.1:0", OneHost: true,
		Settings: map[string]string{"group_count": "256", "log_count": "16"},
	}
	for _, o := range options {
		o(&c)
	}
	return begin(t, c)
}

// begin starts a node, and again while its port is not free yet.
func begin(t *testing.T, c Config) *node {
	t.Helper()
	j := new(journal)
	c.Log = slog.New(slog.NewTextHandler(both{j, everything}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var m *Members
	var err error
	eventually(t, "a port", func() bool {
		m, err = Start(c)
		return err == nil || !strings.Contains(err.Error(), "address already in use")
	})
	if err != nil {
		t.Fatal(err)
	}
	nd := &node{Members: m, t: t, config: c, log: j}
	t.Cleanup(func() { nd.kill() })
	return nd
}

// kill ends a node without a word to the others.
func (n *node) kill() {
	n.t.Helper()
	if err := n.Close(); err != nil {
		n.t.Error(err)
	}
}

// again starts a node's data directory once more, with other options and at any port.
func (n *node) again(options ...func(*Config)) *node {
	n.t.Helper()
	c := n.config
	c.Self = n.table.self()
	c.Self.Incarnation++
	for _, o := range options {
		o(&c)
	}
	return begin(n.t, c)
}

func seeds(nodes ...*node) func(*Config) {
	return func(c *Config) {
		c.Seeds = nil
		for _, n := range nodes {
			c.Seeds = append(c.Seeds, n.GossipAddr())
		}
	}
}

func self(f func(*Record)) func(*Config) { return func(c *Config) { f(&c.Self) } }

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
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

// view is how a node sees another.
func (n *node) view(id string) (s Sighting, known bool) {
	list := n.Members.Members()
	i := slices.IndexFunc(list, func(s Sighting) bool { return s.NodeID == id })
	if i < 0 {
		return s, false
	}
	return list[i], true
}

// sees says whether n sees exactly these as alive, and each of them as it is.
func (n *node) sees(nodes ...*node) bool {
	var alive []Sighting
	for _, s := range n.Members.Members() {
		if s.Alive {
			alive = append(alive, s)
		}
	}
	if len(alive) != len(nodes) {
		return false
	}
	for _, o := range nodes {
		s, ok := n.view(o.table.self().NodeID)
		if !ok || !s.Alive || s.Record != o.table.self() || s.GossipAddr != o.GossipAddr() {
			return false
		}
	}
	return true
}

// knows says whether n knows exactly these node ids, alive or not: on a machine that is
// busy, nodes are missed for a moment.
func (n *node) knows(ids ...string) bool {
	var known []string
	for _, s := range n.Members.Members() {
		known = append(known, s.NodeID)
	}
	return slices.Equal(known, ids)
}

// allSee waits until each of the nodes sees exactly the nodes as alive.
func allSee(t *testing.T, nodes ...*node) {
	t.Helper()
	for _, n := range nodes {
		eventually(t, n.name+" sees all who are there", func() bool { return n.sees(nodes...) })
	}
}

// deaf is an address where connections are taken and nothing is ever said.
func deaf(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// nobody is an address where nothing listens.
func nobody(t *testing.T) string {
	t.Helper()
	addr, err := server.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

func port(t *testing.T, addr string) uint16 {
	t.Helper()
	a, err := netip.ParseAddrPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return a.Port()
}

// local is where nodes of tests listen.
const local = "127.0.0.1"

// with has nodes use certificates.
func with(c *tls.Config) func(*Config) { return func(o *Config) { o.TLS = c } }
