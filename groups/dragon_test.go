package groups

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4"

	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
)

// TestAskedWhileItCloses: who reads, and connections that end, ask raft for something while the node stops. dragonboat
// is not closed under such a call: it panics when it is. Who comes later is refused.
func TestAskedWhileItCloses(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	n, l := r.node, r.node.logs[rows.FirstLog].raft.(*dragonLog)
	asking, asked := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(asked)
		_, err := l.ask(func() (*dragonboat.RequestState, error) {
			close(asking)
			<-n.stop
			for began := time.Now(); time.Since(began) < time.Second; time.Sleep(time.Millisecond) {
				if _, err := l.host.ReadIndex(l.shard, time.Second); errors.Is(err, dragonboat.ErrClosed) {
					t.Error("closed while it was being asked")
					break
				}
			}
			return nil, errBusy
		})
		if !errors.Is(err, errBusy) {
			t.Errorf("asked: %v", err)
		}
	}()
	<-asking
	r.close()
	<-asked
	if _, err := l.propose(nil, time.Second); !errors.Is(err, errNoReplica) {
		t.Errorf("proposed to a closed log: %v", err)
	}
	if _, err := l.readIndex(time.Second); !errors.Is(err, errNoReplica) {
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

// TestMembersWhileItCloses: an operator has a leadership handed over while the node stops, for which it asks who is in the
// log. dragonboat is not closed under that either, and the stop does not wait for the answer.
func TestMembersWhileItCloses(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	n, l := r.node, r.node.logs[rows.FirstLog].raft.(*dragonLog)
	asking, asked := make(chan struct{}), make(chan struct{})
	var once sync.Once
	go func() {
		defer close(asked)
		within, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		l.members(heldBack{within, func() {
			once.Do(func() { close(asking) })
			<-n.stop
			for began := time.Now(); time.Since(began) < time.Second; time.Sleep(time.Millisecond) {
				if _, err := l.host.ReadIndex(l.shard, time.Second); errors.Is(err, dragonboat.ErrClosed) {
					t.Error("closed while it was being asked")
					break
				}
			}
		}})
	}()
	<-asking
	began := time.Now()
	r.close()
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	<-asked
	if _, err := l.members(context.Background()); !errors.Is(err, errNoReplica) {
		t.Errorf("a closed log is asked for its members: %v", err)
	}
}

// brokenRaft is raft whose replicas do not start.
type brokenRaft struct{ raft }

func (b brokenRaft) log(shard uint64) raftLog { return brokenLog{b.raft.log(shard)} }

type brokenLog struct{ raftLog }

var errBroken = errors.New("broken")

func (brokenLog) start(datadir.Replica, *replica.Machine) error { return errBroken }

// TestFailedStartEnds: a node whose replica does not start says so, and does not wait for what was not begun.
func TestFailedStartEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.close()
	cfg := r.cfg
	cfg.seams = &seams{tasks: goroutines{}, process: newIncarnation(), raft: func(n *Node) raft {
		d, err := n.newDragon(filepath.Join(cfg.DataDir, "raft"))
		if err != nil {
			t.Error(err)
		}
		return brokenRaft{d}
	}}
	ended := make(chan error, 1)
	go func() {
		_, err := Open(cfg)
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, errBroken) {
			t.Errorf("open: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it does not end")
	}
}
