package groups

import (
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	gvfs "github.com/lni/vfs"

	"github.com/pathlockd/pathlockd/groups/rows"
)

// TestFatalInPlaceOfExit: a node with Fatal tells it that storage failed, and ends
// nothing else: once Fatal returns the node can be closed though its disk still fails.
func TestFatalInPlaceOfExit(t *testing.T) {
	old := exit
	exit = func(code int) { t.Errorf("the process ends with %d", code) }
	defer func() { exit = old }()
	for name, op := range map[string]gvfs.Op{"write": gvfs.OpWrite, "sync": gvfs.OpSync} {
		t.Run("raft log: "+name, func(t *testing.T) {
			disk := &brokenDisk{op: op}
			fatalOn(t, disk, "raft log: ", func(_ *rig, c *caller) {
				disk.broken.Store(true)
				c.start(c.r.next.Add(1), write("b", "h:/a/2", time.Hour))
			})
		})
	}
	t.Run("state database", func(t *testing.T) {
		fatalOn(t, nil, "", func(r *rig, _ *caller) {
			r.stateBroken.Store(true)
			go func() { _ = r.node.logs[rows.FirstLog].local.Load().Sync() }()
		})
	})
}

func fatalOn(t *testing.T, disk *brokenDisk, want string, fail func(*rig, *caller)) {
	t.Helper()
	said := make(chan error, 1)
	var once sync.Once
	var faults gvfs.Injector
	if disk != nil {
		faults = disk
	}
	r := newRigOn(t, faults, func(c *Config) {
		c.Fatal = func(err error) { once.Do(func() { said <- err }) }
	})
	c := r.session()
	c.must(write("a", "h:/a/1", time.Hour))
	fail(r, c)
	select {
	case err := <-said:
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
			t.Errorf("it is told %v", err)
		}
	case <-time.After(patience):
		t.Fatal("nobody is told")
	}
	n := r.node
	r.node = nil
	if disk == nil {
		return // pebble does not close on a disk that fails
	}
	if err := n.Close(0); err != nil {
		t.Errorf("it does not close: %v", err)
	}
}
