package pathlockd

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups"
	process "github.com/pathlockd/pathlockd/internal/testkit/server"
	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// node is a real server in this process.
type node struct {
	dir, raft, addr string
	node            *groups.Node
	srv             *loop.Server
}

// freeAddr answers an address of this host on which nobody listens now.
func freeAddr(t testing.TB) string {
	t.Helper()
	addr, err := process.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// newNode starts a server of its own for a test, which may stop and start it.
func newNode(t testing.TB) *node {
	t.Helper()
	n := &node{dir: t.TempDir(), raft: freeAddr(t), addr: freeAddr(t)}
	n.start(t)
	t.Cleanup(func() { n.stop(0) })
	return n
}

func (n *node) start(t testing.TB) {
	t.Helper()
	var err error
	n.node, err = groups.Open(groups.Config{
		DataDir: n.dir, RaftAddr: n.raft, NativeAddr: n.addr, Bootstrap: true, Segments: 1, LogCount: 2, GroupCount: 16,
		MaxInflight: 100_000,
		ElectionMin: 200 * time.Millisecond, Heartbeat: 50 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if !n.node.WaitReady(90 * time.Second) {
		t.Fatal("the node did not become ready")
	}
	n.srv, err = loop.New(n.node, loop.Options{
		NodeID: n.node.NodeID(), ClusterID: n.node.ClusterID(), RepeatMillis: groups.RepeatMillis,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err == nil {
		_, err = n.srv.Listen("tcp", n.addr)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// stop ends the server: with drain as a daemon does that is told to stop, else as
// one that is killed, as far as clients can see.
func (n *node) stop(drain time.Duration) {
	if n.node == nil {
		return
	}
	if drain > 0 {
		n.srv.Goodbye(wire.Errorf(wire.Unavailable, "the server stops"))
	}
	n.node.Close(drain)
	n.srv.Close()
	n.node, n.srv = nil, nil
}

// shared is the server of the tests that leave theirs alone.
var shared struct {
	sync.Once
	n *node
}

// server answers the address of a server that the tests of the package share. They
// keep to handlers of their own (handler).
func server(t testing.TB) string {
	t.Helper()
	shared.Do(func() {
		// Its directory outlives the test that happens to come first.
		n := &node{dir: sharedDir, raft: freeAddr(t), addr: freeAddr(t)}
		n.start(t)
		shared.n = n
	})
	if shared.n == nil {
		t.Fatal("the shared server did not start")
	}
	return shared.n.addr
}

// dial connects a client for the length of a test.
func dial(t testing.TB, addr string, opts ...Option) *Client {
	t.Helper()
	c, err := Dial(within(t, patience), addr, append([]Option{withClock(bubbleClock)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// withClock sets the client's clock.
func withClock(clock func() time.Duration) Option { return func(o *options) { o.clock = clock } }

// bubbleClock shows a bubble's time within one.
func bubbleClock() time.Duration { return time.Duration(time.Now().UnixNano()) }

// within answers a context for as long as a test may take over something.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// patience bounds what a test waits for that is to come at once: it is for machines
// that do much else.
const patience = time.Minute

// eventually waits until f says yes.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	late := time.After(patience)
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !f() {
		select {
		case <-late:
			t.Fatalf("never came: %s", what)
		case <-look.C:
		}
	}
}

// ownerOf answers who holds a path's write lock, as a server knows it, "" for nobody.
func ownerOf(t testing.TB, c *Client, path string) string {
	t.Helper()
	i, err := c.InspectPath(within(t, patience), path)
	must(t, err)
	return i.WriteOwner
}

// isWatched waits until the client has looked at what a lock's owner holds and knows the lock among it.
func isWatched(t testing.TB, c *Client, l *Lock) {
	t.Helper()
	eventually(t, "that the client has looked at what its owner holds", func() bool {
		c.keeper.mu.Lock()
		defer c.keeper.mu.Unlock()
		le := l.lease
		return le != nil && le.watched && !le.looking && !le.doubt && l.since != nil && l.since[0] != 0
	})
}

// path answers a path that no other test locks.
func path(t testing.TB, rest string) string {
	t.Helper()
	return strings.NewReplacer("/", "-", "=", "-", "#", "-").Replace(t.Name()) + ":" + rest
}
