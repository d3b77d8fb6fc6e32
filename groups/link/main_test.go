package link

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftpb"
	"go.uber.org/goleak"

	"github.com/pathlockd/pathlockd/groups/gossip"
)

// patience is how long a test waits for what must come.
const patience = 60 * time.Second

const (
	token    = gossip.Token("a token that is only used in tests")
	clusterA = "11111111-1111-4111-8111-111111111111"
	clusterB = "22222222-2222-4222-8222-222222222222"
)

func TestMain(m *testing.M) {
	code := m.Run()
	err := goleak.Find()
	for end := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(end); {
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

// end is one transport under test, and what came in at it.
type end struct {
	*transport
	link    *Link
	log     *journal
	batches chan raftpb.MessageBatch
	chunks  chan raftpb.Chunk
	gate    atomic.Pointer[chan struct{}]
}

func quick(c *Config) {
	c.timing = timing{handshake: 5 * time.Second, alive: 50 * time.Millisecond, silence: patience,
		stall: time.Second, logEvery: 1}
}

// silent makes an end give up on a silent peer soon.
func silent(c *Config) { c.timing.silence = 3 * time.Second }

// configOf is the configuration of node n, and where it logs.
func configOf(n int, options ...func(*Config)) (Config, *journal) {
	log := new(journal)
	c := Config{
		Cluster: clusterA, Node: fmt.Sprintf("node-%d", n), Host: fmt.Sprintf("host-%d", n), Token: token,
		Listen: "127.0.0.1:0",
		Log:    slog.New(slog.NewTextHandler(both{log, everything}, nil)), timing: timing{silence: patience},
	}
	for _, o := range options {
		o(&c)
	}
	return c, log
}

// open starts the transport of node n.
func open(t testing.TB, n int, options ...func(*Config)) *end {
	t.Helper()
	c, log := configOf(n, options...)
	e := &end{log: log, batches: make(chan raftpb.MessageBatch, 4096), chunks: make(chan raftpb.Chunk, 64)}
	l, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	e.link = l
	e.transport = l.Create(config.NodeHostConfig{}, func(b raftpb.MessageBatch) {
		if g := e.gate.Load(); g != nil {
			<-*g
		}
		e.batches <- b
	},
		func(s raftpb.Chunk) bool { e.chunks <- s; return s.Index != refused }).(*transport)
	if err := e.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.transport.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// hold makes the handler of batches wait until the gate is closed.
func (e *end) hold(gate chan struct{}) { e.gate.Store(&gate) }

// refused is the index of a snapshot that nobody wants.
const refused = 666

func batch(n int, bytes int) raftpb.MessageBatch {
	return raftpb.MessageBatch{DeploymentId: 7, SourceAddress: "host", BinVer: 210, Requests: []raftpb.Message{{
		Type: raftpb.Replicate, To: 2, From: 1, ShardID: 3, Term: 5, LogIndex: uint64(n),
		Entries: []raftpb.Entry{{Term: 5, Index: uint64(n) + 1, Cmd: bytes0(bytes)}},
	}}}
}

func bytes0(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 31)
	}
	return b
}

func number(b raftpb.MessageBatch) int { return int(b.Requests[0].LogIndex) }

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

func (e *end) logged(t testing.TB, words string) {
	t.Helper()
	eventually(t, "a log line with: "+words, func() bool { return strings.Contains(e.log.String(), words) })
}

// to connects for messages.
func (e *end) to(t testing.TB, other *end) *connection {
	t.Helper()
	c, err := e.connect(context.Background(), other.link.Addr(), Messages)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (e *end) guestConns() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.visits
}
