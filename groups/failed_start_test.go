package groups

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/raft"
	"github.com/pathlockd/pathlockd/groups/replica"
)

// brokenRaft is raft whose replicas do not start.
type brokenRaft struct{ raft.Host }

func (b brokenRaft) Log(shard uint64) raft.Log { return brokenLog{b.Host.Log(shard)} }

type brokenLog struct{ raft.Log }

var errBroken = errors.New("broken")

func (brokenLog) Start(datadir.Replica, *replica.Machine) error { return errBroken }

// TestFailedStartEnds: a node whose replica does not start says so, and does not wait for what was not begun.
func TestFailedStartEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.close()
	cfg := r.cfg
	cfg.seams = &seams{tasks: goroutines{}, process: newIncarnation(), raft: func(n *Node) raft.Host {
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
