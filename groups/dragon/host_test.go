package dragon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4"
	gvfs "github.com/lni/vfs"

	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/link"
	"github.com/pathlockd/pathlockd/groups/raft"
	"github.com/pathlockd/pathlockd/groups/rows"
)

// started is a host of one log that has no replica, on a disk in memory.
func started(t *testing.T) (*Host, *log) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	id := &datadir.Identity{ClusterID: "cluster", NodeID: "n-0", HostID: "4c6f0b36-5d3c-4b0c-8b53-0d2f9c1d7a11"}
	id.LogCount = 1
	quiet := slog.New(slog.DiscardHandler)
	LogTo(quiet, func(*slog.Logger, error) {})
	links, err := link.New(link.Config{
		Cluster: id.ClusterID, Node: id.NodeID, Host: id.HostID, FormatMin: rows.OldestFormat,
		FormatMax: rows.NewestFormat,
		InUse:     func() uint32 { return rows.NewestFormat }, Log: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	h, err := Start(Config{
		Dir: "raft", FS: gvfs.NewMem(), Addr: addr, ElectionMin: time.Second, Heartbeat: 100 * time.Millisecond,
		Identity: id, Registry: NewRegistry(), Link: links, Log: quiet,
		Failed: func(err error) { t.Error(err) }, Leader: func(_, _, _, _ uint64) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	return h, h.logs[rows.FirstLog]
}

// stillOpen has the host closed, and sees for a second that it is not while it is under a call.
func stillOpen(t *testing.T, l *log) {
	<-l.ends.Done()
	for began := time.Now(); time.Since(began) < time.Second; time.Sleep(time.Millisecond) {
		if _, err := l.NodeHost.ReadIndex(l.shard, time.Second); errors.Is(err, dragonboat.ErrClosed) {
			t.Error("closed while it was being asked")
			return
		}
	}
}

// TestAskedWhileItCloses: who reads, and connections that end, ask raft for something while the node stops. dragonboat
// is not closed under such a call: it panics when it is. Who comes later is refused.
func TestAskedWhileItCloses(t *testing.T) {
	t.Parallel()
	h, l := started(t)
	asking, asked := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(asked)
		_, err := l.ask(func() (*dragonboat.RequestState, error) {
			close(asking)
			stillOpen(t, l)
			return nil, raft.ErrBusy
		})
		if !errors.Is(err, raft.ErrBusy) {
			t.Errorf("asked: %v", err)
		}
	}()
	<-asking
	h.Close()
	<-asked
	if _, err := l.Propose(nil, time.Second); !errors.Is(err, raft.ErrNoReplica) {
		t.Errorf("proposed to a closed log: %v", err)
	}
	if _, err := l.ReadIndex(time.Second); !errors.Is(err, raft.ErrNoReplica) {
		t.Errorf("read from a closed log: %v", err)
	}
}

// heldBack is a context whose deadline is asked for before raft is, and told when the node stops.
type heldBack struct {
	context.Context
	asked func()
}

func (c heldBack) Deadline() (time.Time, bool) {
	c.asked()
	return c.Context.Deadline()
}

// TestMembersWhileItCloses: an operator has a leadership handed over while the node stops, for which it asks who is in
// the log. dragonboat is not closed under that either. (That the stop does not wait for the answer has no test: it
// would take a replica that nobody answers.)
func TestMembersWhileItCloses(t *testing.T) {
	t.Parallel()
	h, l := started(t)
	asking, asked := make(chan struct{}), make(chan struct{})
	var once sync.Once
	go func() {
		defer close(asked)
		within, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		l.Members(heldBack{within, func() {
			once.Do(func() { close(asking); stillOpen(t, l) })
		}})
	}()
	<-asking
	began := time.Now()
	h.Close()
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	<-asked
	if _, err := l.Members(context.Background()); !errors.Is(err, raft.ErrNoReplica) {
		t.Errorf("a closed log is asked for its members: %v", err)
	}
}
