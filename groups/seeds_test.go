package groups

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// notes keeps what was logged.
type notes struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	wrote func(line string) // nil, or called with each line
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.wrote != nil {
		n.wrote(string(p))
	}
	return n.buf.Write(p)
}

func (n *notes) lines(word string) (found []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for line := range strings.Lines(n.buf.String()) {
		if strings.Contains(line, word) {
			found = append(found, line)
		}
	}
	return found
}

// joiner is a configuration with an empty directory that is to join through seeds, and
// what it logs.
func joiner(t *testing.T, gossip string, seeds ...string) (Config, *notes) {
	log := new(notes)
	c := Config{
		DataDir: t.TempDir(), NodeID: "n-1", Segments: 1, GroupCount: 4, LogCount: 1, RaftAddr: freeAddr(t),
		GossipAddr: gossip, Seeds: seeds, Token: testToken, OneHost: true, Log: slog.New(slog.NewTextHandler(log, nil)),
	}
	c.RaftFS, c.FS = memDisks()
	return c, log
}

const stillAsks = "no seed belongs to a cluster yet"

// TestOwnSeeds: a joiner whose seeds are all itself does not start, and says what to set.
// One whose seed is a name waits, without asking all the time: others may come under it.
func TestOwnSeeds(t *testing.T) {
	t.Parallel()
	own := freeAddr(t)
	_, port, _ := net.SplitHostPort(own)
	c, _ := joiner(t, own, own, "localhost:"+port)
	n, err := OpenContext(short(t), c)
	if err == nil {
		n.Close(0)
		t.Fatal("it started")
	}
	for _, want := range []string{"seed_nodes: all of " + own, "gossip_addr " + own, "at least one other node",
		"bootstrap = true"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %q in it", err, want)
		}
	}

	name := "LOCALHOST:" + port // to the resolver the same, and none of the names that never change
	c, log := joiner(t, own, name)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if n, err := OpenContext(ctx, c); err == nil {
		n.Close(0)
		t.Fatal("it started")
	} else if !strings.Contains(err.Error(), "looking for the cluster at "+name) {
		t.Errorf("it waits no more: %v", err)
	}
	if lines := log.lines(stillAsks); len(lines) != 1 || !strings.Contains(lines[0], "all of them are this node") {
		t.Errorf("it logs %d lines in a second, want 1 that says that the name is its own: %.300q", len(lines), lines)
	}
}

// TestSilentSeeds: a joiner says when it has asked once, not when it gives up for a while,
// whom it waits for and what to do.
func TestSilentSeeds(t *testing.T) {
	t.Parallel()
	seed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer seed.Close()
	var asked atomic.Int32
	go func() {
		for {
			conn, err := seed.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			conn.Close()
		}
	}()
	c, log := joiner(t, freeAddr(t), seed.Addr().String())
	said := make(chan int32, 16)
	log.wrote = func(line string) {
		if strings.Contains(line, stillAsks) {
			said <- asked.Load()
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), clusterPatience)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if n, err := OpenContext(ctx, c); err == nil {
			n.Close(0)
			t.Error("it started")
		}
	}()
	select {
	case times := <-said:
		if times != 1 {
			t.Errorf("it says so when it has asked %d times, want once", times)
		}
	case <-done:
		t.Fatal("it says nothing")
	}
	cancel()
	<-done
	line := log.lines(stillAsks)[0]
	for _, want := range []string{seed.Addr().String(), "start the node that founds it", "seed_nodes", "gossip_addr"} {
		if !strings.Contains(line, want) {
			t.Errorf("it says %q, want %q in it", line, want)
		}
	}
}

// TestSeedsOfTwoClusters: the message names the key once.
func TestSeedsOfTwoClusters(t *testing.T) {
	t.Parallel()
	one, other := newLocalCluster(t, 1, nil), newLocalCluster(t, 1, nil)
	c, _ := joiner(t, freeAddr(t), one.gossip[0], other.gossip[0])
	for _, f := range []*localCluster{one, other} {
		f.settle(1)
	}
	n, err := OpenContext(short(t), c)
	if err == nil {
		n.Close(0)
		t.Fatal("it started")
	}
	if text := err.Error(); strings.Count(text, "seed_nodes") != 1 || !strings.HasPrefix(text, "seed_nodes: ") ||
		!strings.Contains(text, "name seeds of one cluster") {
		t.Errorf("it says %q", text)
	}
}
