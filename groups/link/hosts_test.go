package link

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/logger"
	"github.com/lni/dragonboat/v4/raftio"
	sm "github.com/lni/dragonboat/v4/statemachine"
	"github.com/lni/vfs"

	"github.com/pathlockd/pathlockd/internal/testkit/server"
)

// book is the address book of all hosts of a test, by raft host id: the ports are not
// known before the links listen.
type book struct {
	mu    sync.Mutex
	addrs map[string]string
	who   map[raftio.NodeInfo]string
}

func (b *book) Create(string, uint64, config.TargetValidator) (raftio.INodeRegistry, error) {
	return b, nil
}
func (b *book) Close() error           { return nil }
func (b *book) Remove(uint64, uint64)  {}
func (b *book) RemoveShard(uint64)     {}
func (b *book) note(host, addr string) { b.mu.Lock(); defer b.mu.Unlock(); b.addrs[host] = addr }
func (b *book) Add(s, r uint64, h string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.who[raftio.GetNodeInfo(s, r)] = h
}

func (b *book) Resolve(shard, replica uint64) (string, string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	addr, ok := b.addrs[b.who[raftio.GetNodeInfo(shard, replica)]]
	if !ok {
		return "", "", fmt.Errorf("replica %d is nowhere yet", replica)
	}
	return addr, addr, nil
}

// ballast makes a snapshot several chunks long.
const ballast = 5 << 20

// counter adds up what is proposed.
type counter struct{ sum atomic.Uint64 }

func (c *counter) Update(e sm.Entry) (sm.Result, error) {
	return sm.Result{Value: c.sum.Add(binary.BigEndian.Uint64(e.Cmd))}, nil
}
func (c *counter) Lookup(any) (any, error) { return c.sum.Load(), nil }
func (c *counter) SaveSnapshot(w io.Writer, _ sm.ISnapshotFileCollection, _ <-chan struct{}) error {
	if err := binary.Write(w, binary.BigEndian, c.sum.Load()); err != nil {
		return err
	}
	_, err := w.Write(bytes0(ballast))
	return err
}
func (c *counter) RecoverFromSnapshot(r io.Reader, _ []sm.SnapshotFile, _ <-chan struct{}) error {
	var n uint64
	if err := binary.Read(r, binary.BigEndian, &n); err != nil {
		return err
	}
	rest, err := io.ReadAll(r)
	if err == nil && !bytes.Equal(rest, bytes0(ballast)) {
		err = fmt.Errorf("%d bytes of ballast are not what was saved", len(rest))
	}
	c.sum.Store(n)
	return err
}
func (c *counter) Close() error { return nil }

var quiet sync.Once

// host starts one NodeHost of a cluster with a replica of shard 1, over a link or over
// dragonboat's own transport.
func host(t testing.TB, n int, b *book, w Faults, own bool) (*dragonboat.NodeHost, *counter) {
	h, c := start(t, n, b, w, own, vfs.NewMem(), "127.0.0.1:0")
	t.Cleanup(h.Close)
	return h, c
}

// start starts a NodeHost on a disk, and leaves closing it to the caller.
func start(t testing.TB, n int, b *book, w Faults, own bool, disk vfs.FS,
	listen string) (*dragonboat.NodeHost, *counter) {
	t.Helper()
	quiet.Do(func() {
		for _, pkg := range []string{"dragonboat", "raft", "rsm", "logdb", "transport", "config", "registry",
			"settings", "utils", "server", "raftpb", "grpc", "tests", "util", "pebblekv", "fileutil"} {
			logger.GetLogger(pkg).SetLevel(logger.CRITICAL)
		}
	})
	l, err := New(Config{
		Cluster: clusterA, Node: fmt.Sprintf("node-%d", n), Host: hostID(n), Token: token, Listen: listen, Faults: w,
		Log: slog.New(slog.NewTextHandler(everything, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	expert := config.GetDefaultExpertConfig()
	expert.Engine.ExecShards = 1
	expert.LogDB = config.GetTinyMemLogDBConfig()
	expert.LogDB.Shards = 1
	expert.FS = disk
	expert.NodeRegistryFactory, expert.TransportFactory = b, l
	addr := "127.0.0.1:1"
	if own {
		expert.TransportFactory, addr = nil, free(t)
	}
	h, err := dragonboat.NewNodeHost(config.NodeHostConfig{
		DeploymentID: 7, NodeHostID: hostID(n), NodeHostDir: "/raft", RTTMillisecond: 20,
		RaftAddress: addr, Expert: expert,
	})
	if err != nil {
		t.Fatal(err)
	}
	if !own {
		addr = l.Addr()
	}
	b.note(hostID(n), addr)
	c := new(counter)
	members := map[uint64]dragonboat.Target{1: hostID(1), 2: hostID(2), 3: hostID(3)}
	if err := h.StartReplica(members, false, func(uint64, uint64) sm.IStateMachine { return c }, config.Config{
		ReplicaID: uint64(n), ShardID: 1, ElectionRTT: 20, HeartbeatRTT: 2, CheckQuorum: true, PreVote: true,
	}); err != nil {
		h.Close()
		t.Fatal(err)
	}
	return h, c
}

// free answers an address that nobody listens on.
func free(t testing.TB) string {
	t.Helper()
	addr, err := server.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

func hostID(n int) string { return fmt.Sprintf("33333333-3333-4333-8333-%012d", n) }

// TestNodeHosts: three of dragonboat's hosts elect and replicate over links; the leader
// alone can do nothing while the others go on without it; once healed it has what it
// missed, by a snapshot too.
func TestNodeHosts(t *testing.T) {
	w := NewNetworkFaults(1)
	b := &book{addrs: make(map[string]string), who: make(map[raftio.NodeInfo]string)}
	hosts := make(map[uint64]*dragonboat.NodeHost)
	sums := make(map[uint64]*counter)
	for n := range 3 {
		hosts[uint64(n+1)], sums[uint64(n+1)] = host(t, n+1, b, w, false)
	}
	// leader is who a host says leads, 0 for nobody.
	leader := func(at uint64) uint64 {
		id, _, ok, err := hosts[at].GetLeaderID(1)
		if err != nil || !ok {
			return 0
		}
		return id
	}
	propose := func(at, n uint64, patience time.Duration) error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, err := hosts[at].SyncPropose(ctx, hosts[at].GetNoOPSession(1), binary.BigEndian.AppendUint64(nil, n))
		return err
	}
	var first uint64
	eventually(t, "a leader", func() bool {
		first = leader(1)
		return first != 0 && leader(2) == first &&
			leader(3) == first
	})
	eventually(t, "a proposal", func() bool { return propose(first%3+1, 1, time.Second) == nil }) // forwarded
	eventually(t, "it everywhere", func() bool {
		return sums[1].sum.Load() > 0 && sums[2].sum.Load() > 0 &&
			sums[3].sum.Load() > 0
	})

	name := func(id uint64) string { return fmt.Sprintf("node-%d", id) }
	second, third := first%3+1, (first+1)%3+1
	w.Partition([]string{name(first)}, []string{name(second), name(third)})
	eventually(t, "another leader", func() bool {
		l := leader(second)
		return l != 0 && l != first &&
			l == leader(third)
	})
	before := sums[first].sum.Load()
	eventually(t, "proposals of the majority", func() bool { return propose(second, 1000, time.Second) == nil })
	eventually(t, "the old leader to step down", func() bool { return leader(first) != first })
	if err := propose(first, 1_000_000, 200*time.Millisecond); err == nil {
		t.Fatal("a minority of one accepted a proposal")
	}
	if got := sums[first].sum.Load(); got != before {
		t.Fatalf("the cut off node went from %d to %d", before, got)
	}
	// The log that it misses is gone, so it needs a snapshot.
	for _, at := range []uint64{second, third} {
		// One that is done after its request was given up leaves the next nothing to do,
		// which is refused: so each has something new.
		eventually(t, "a snapshot", func() bool {
			if propose(second, 1000, time.Second) != nil {
				return false
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience/4)
			defer cancel()
			_, err := hosts[at].SyncRequestSnapshot(ctx, 1, dragonboat.SnapshotOption{OverrideCompactionOverhead: true,
				CompactionOverhead: 1})
			return err == nil
		})
	}
	eventually(t, "a proposal after it", func() bool { return propose(second, 1000, time.Second) == nil })
	chunks := w.Sent(Snapshots)
	w.Clear()
	eventually(t, "all with the same state", func() bool {
		s := sums[second].sum.Load()
		return s >= 2000 && sums[third].sum.Load() == s && sums[first].sum.Load() == s
	})
	eventually(t, "a proposal at the healed node", func() bool { return propose(first, 7, time.Second) == nil })
	if w.Sent(Snapshots) == chunks {
		t.Error("no snapshot was sent: the log went back further than the test wants")
	}
}

// TestComeback: a node that was away is reached soon after it is there again, at the
// address that it had.
func TestComeback(t *testing.T) {
	b := &book{addrs: make(map[string]string), who: make(map[raftio.NodeInfo]string)}
	one, _ := host(t, 1, b, nil, false)
	host(t, 2, b, nil, false)
	disk := vfs.NewMem()
	three, sum := start(t, 3, b, nil, false, disk, "127.0.0.1:0")
	propose := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := one.SyncPropose(ctx, one.GetNoOPSession(1), binary.BigEndian.AppendUint64(nil, 1))
		return err
	}
	eventually(t, "a proposal everywhere", func() bool { return propose() == nil && sum.sum.Load() > 0 })
	b.mu.Lock()
	addr := b.addrs[hostID(3)]
	b.mu.Unlock()
	three.Close()
	for range 20 { // so that they try to reach it, and fail
		eventually(t, "a proposal without it", func() bool { return propose() == nil })
	}
	three, sum = start(t, 3, b, nil, false, disk, addr)
	defer three.Close()
	there := time.Now()
	before := sum.sum.Load()
	eventually(t, "what it missed", func() bool { return propose() == nil && sum.sum.Load() > before+20 })
	t.Logf("reached after %s", time.Since(there))
}
