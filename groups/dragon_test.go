package groups

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4"
)

// TestAskedWhileItCloses: who reads, and connections that end, ask raft for something while the node stops. dragonboat
// is not closed under such a call: it panics when it is. Who comes later is refused.
func TestAskedWhileItCloses(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	n, l := r.node, r.node.logs[firstLogShard].raft.(*dragonLog)
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

// brokenRaft is raft whose replicas do not start.
type brokenRaft struct{ raft }

func (b brokenRaft) log(shard uint64) raftLog { return brokenLog{b.raft.log(shard)} }

type brokenLog struct{ raftLog }

var errBroken = errors.New("broken")

func (brokenLog) start(seat, *machine) error { return errBroken }

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
