package link

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftpb"
)

// TestBatches: four nodes, each to each, sizes from nothing to more than a connection
// keeps; content and order are what was sent.
func TestBatches(t *testing.T) {
	ends := []*end{open(t, 0), open(t, 1), open(t, 2), open(t, 3)}
	sizes := []int{0, 1, 1000, keptBytes - 100, keptBytes, keptBytes + 1, 3 << 20}
	for _, from := range ends {
		for _, to := range ends {
			if from == to {
				continue
			}
			c := from.to(t, to)
			for i, size := range sizes {
				sent := batch(i, size)
				if err := c.SendMessageBatch(sent); err != nil {
					t.Fatal(err)
				}
				got := within(t, "a batch", to.batches)
				if number(got) != i || !bytes.Equal(got.Requests[0].Entries[0].Cmd, sent.Requests[0].Entries[0].Cmd) ||
					got.SourceAddress != "host" || got.DeploymentId != 7 {
					t.Fatalf("batch %d of %d bytes arrived as another", i, size)
				}
			}
		}
	}
	for _, e := range ends {
		// A frame is given back when the next one is waited for.
		eventually(t, "the budget given back", func() bool { return e.in.used() == 0 })
	}
}

// TestChunks: a snapshot of many chunks has arrived whole when Close returns.
func TestChunks(t *testing.T) {
	a, b := open(t, 1), open(t, 2)
	c, err := a.GetSnapshotConnection(context.Background(), b.link.Addr())
	if err != nil {
		t.Fatal(err)
	}
	const n = 12
	data := bytes0(2 << 20)
	for i := range uint64(n) {
		if err := c.SendChunk(raftpb.Chunk{ShardID: 3, ChunkId: i, ChunkCount: n, Data: data, BinVer: 210,
			Filepath: "x", Membership: raftpb.Membership{Addresses: map[uint64]string{1: "host-1"}}}); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	if len(b.chunks) != n {
		t.Fatalf("%d of %d chunks had arrived when the connection was closed", len(b.chunks), n)
	}
	for i := range uint64(n) {
		got := <-b.chunks
		if got.ChunkId != i || !bytes.Equal(got.Data, data) || !reflect.DeepEqual(got.Membership.Addresses,
			map[uint64]string{1: "host-1"}) {
			t.Fatalf("chunk %d arrived as another", i)
		}
	}
}

// TestUnwantedChunk: a snapshot that is not wanted costs its connection, and the sender
// hears of it.
func TestUnwantedChunk(t *testing.T) {
	a, b := open(t, 1), open(t, 2)
	c, err := a.GetSnapshotConnection(context.Background(), b.link.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	eventually(t, "an error for the sender", func() bool {
		return c.SendChunk(raftpb.Chunk{Index: refused, ShardID: 3}) != nil
	})
	b.logged(t, "is not wanted")
}

// TestPeerCloses: a sender hears that its peer is gone, and can come back when it is
// there again.
func TestPeerCloses(t *testing.T) {
	a, b := open(t, 1), open(t, 2)
	c := a.to(t, b)
	addr := b.link.Addr()
	if err := b.transport.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an error for the sender", func() bool { return c.SendMessageBatch(batch(1, 10)) != nil })
	if _, err := a.GetConnection(context.Background(), addr); err == nil {
		t.Fatal("connected to nobody")
	}
	again := open(t, 2, func(c *Config) { c.Listen = addr })
	if err := a.to(t, again).SendMessageBatch(batch(9, 10)); err != nil {
		t.Fatal(err)
	}
	if got := within(t, "a batch", again.batches); number(got) != 9 {
		t.Fatalf("batch %d", number(got))
	}
	if err := a.transport.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.GetConnection(context.Background(), addr); err == nil {
		t.Fatal("a closed link connects")
	}
}

// TestAlone: without a token nothing listens and nobody is dialed.
func TestAlone(t *testing.T) {
	a := open(t, 1, func(c *Config) { c.Token = "" })
	if addr := a.link.Addr(); addr != "" {
		t.Fatalf("a node alone listens on %s", addr)
	}
	if _, err := a.GetConnection(context.Background(), "127.0.0.1:1"); !errors.Is(err, errAlone) {
		t.Fatal(err)
	}
}

// TestConfig: what is wrong is said at the start.
func TestConfig(t *testing.T) {
	for _, c := range []struct {
		config Config
		words  string
	}{
		{Config{Node: "n", Host: "h"}, "cluster id"},
		{Config{Cluster: "c", Host: "h"}, "node id"},
		{Config{Cluster: "c", Node: strings.Repeat("n", maxNameBytes+1), Host: "h"}, "1 to 255 bytes"},
		{Config{Cluster: "c", Node: "n"}, "raft host id"},
		{Config{Cluster: "c", Node: "n", Host: "h", Token: "short"}, "at least 32 bytes"},
		{Config{Cluster: "c", Node: "n", Host: "h", FormatMin: 2, FormatMax: 1}, "formats 2 to 1"},
	} {
		if _, err := New(c.config); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%q is not in: %v", c.words, err)
		}
	}
	l, err := New(Config{Cluster: "c", Node: "n", Host: "h", Token: token, Listen: "127.0.0.1:http-and-no-such-port"})
	if err != nil {
		t.Fatal(err)
	}
	tr := l.Create(config.NodeHostConfig{}, nil, nil)
	if err := tr.Start(); err == nil {
		t.Error("listens nowhere")
	}
	_ = tr.Close()
	for addr, good := range map[string]bool{"a:1": true, "[::1]:1": true, "a": false, ":1": false,
		"a:": false, "": false} {
		if l.Validate(addr) != good {
			t.Errorf("address %q: valid is not %v", addr, good)
		}
	}
}

// TestOversize: what is too long is refused by who sends it, and the connection stays.
func TestOversize(t *testing.T) {
	a, b := open(t, 1), open(t, 2)
	c := a.to(t, b)
	if err := c.SendMessageBatch(batch(1, maxBatchBytes)); !errors.Is(err, errTooLong) {
		t.Fatal(err)
	}
	if err := c.SendMessageBatch(batch(2, 64<<20)); err != nil {
		t.Fatal(err)
	}
	if got := within(t, "the largest batch", b.batches); number(got) != 2 ||
		len(got.Requests[0].Entries[0].Cmd) != 64<<20 {
		t.Fatal("another batch")
	}
}
