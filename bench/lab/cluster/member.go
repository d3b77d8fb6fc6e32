package cluster

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
	gvfs "github.com/lni/vfs"

	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/groups/link"
)

// member is a node of Nodes.
type member struct {
	number  int
	of      *Nodes
	cfg     groups.Config
	clock   *clock
	network *link.NetworkFaults
	breaker breaker
	breaks  int         // how often its disks failed
	dead    atomic.Bool // nothing that it sends arrives
	frost   frost
	fills   int // how often its disk was full
	room    atomic.Uint64

	mu    sync.Mutex
	raft  *gvfs.MemFS
	state *vfs.MemFS
	node  *groups.Node      // nil while it is down
	gone  chan struct{}     // closed when node is to be heard no more
	broke chan error        // that its disk failed
	files map[string][]byte // of its data directory, when it died
}

// Outgoing implements link.Faults: what a dead node sends is lost, what has to do with one
// that is paused is late, and of others what the network's faults say.
func (m *member) Outgoing(p link.Passage) link.Fate {
	if m.dead.Load() {
		return link.Fate{Drop: true}
	}
	if fate, late := m.of.late(p); late {
		return fate
	}
	return m.network.Outgoing(p)
}

// silence makes the node unheard, and its disks keep what they have and no more. It is
// Config.Fatal too.
func (m *member) silence() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead.Swap(true) {
		return
	}
	close(m.gone)
	// The raft log last: the others may be behind it, and never ahead of it.
	m.state = m.state.CrashClone(vfs.CrashCloneCfg{})
	m.files = readFiles(m.cfg.DataDir)
	m.raft.SetIgnoreSyncs(true)
}

// readFiles reads the few files that a node has on the real disk: who it is, and who the
// others are.
func readFiles(dir string) map[string][]byte {
	files := make(map[string][]byte)
	list, err := os.ReadDir(dir)
	if err != nil {
		return files // it was never started
	}
	for _, f := range list {
		if b, err := os.ReadFile(filepath.Join(dir, f.Name())); err == nil {
			files[f.Name()] = b
		}
	}
	return files
}

// writeFiles makes the files what they were.
func writeFiles(dir string, files map[string][]byte) error {
	for name := range readFiles(dir) {
		if _, there := files[name]; !there {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (m *member) up() (*groups.Node, chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.node, m.gone
}
