package cluster

import (
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/groups/link"
)

// frost keeps a node of this process from the world while it is paused: what clients say to
// it and it to them is held back, its disks take nothing, and what nodes send it or it
// sends them is late. All of that arrives afterwards.
//
// It is not all of SIGSTOP. The node's goroutines and timers go on: it hears nothing and
// nobody hears it, and it knows that it does; SIGSTOP's node wakes as the leader that it
// was. What arrives late from nodes is in no order, and gossip's datagrams are lost.
// Connections between nodes are refused, and not accepted and silent; of what was under way
// when it was paused, a little is still heard. What nodes send when a pause takes longer than
// was planned is lost.
type frost struct {
	mu    sync.Mutex
	ends  time.Time     // as planned; zero: it is not paused
	thaw  chan struct{} // closed when disks go on; nil: it is not paused
	calls []func()      // what clients say and hear, in order
}

func (f *frost) freeze(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.thaw == nil {
		f.ends, f.thaw = time.Now().Add(d), make(chan struct{})
	}
}

// melt ends a pause. What was held back is done, in order, or forgotten.
func (f *frost) melt(deliver bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.thaw == nil {
		return
	}
	f.ends = time.Time{}
	close(f.thaw)
	for deliver && len(f.calls) > 0 {
		calls := f.calls
		f.calls = nil
		f.mu.Unlock()
		for _, do := range calls {
			do()
		}
		f.mu.Lock()
	}
	f.calls, f.thaw = nil, nil
}

// pass does what a client says or hears, at once or after the pause.
func (f *frost) pass(do func()) {
	f.mu.Lock()
	if f.thaw != nil {
		f.calls = append(f.calls, do)
		f.mu.Unlock()
		return
	}
	f.mu.Unlock()
	do()
}

// still waits until the disks may go on.
func (f *frost) still() {
	f.mu.Lock()
	thaw := f.thaw
	f.mu.Unlock()
	if thaw != nil {
		<-thaw
	}
}

// frozen says that the node is paused, and how long that is to last.
func (f *frost) frozen() (is bool, left time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ends.IsZero() {
		return false, 0
	}
	return true, time.Until(f.ends)
}

// late is what becomes of a passage between two nodes while either is paused; false when
// neither is.
func (n *Nodes) late(p link.Passage) (link.Fate, bool) {
	for _, m := range n.members() {
		if m.cfg.NodeID != p.From && m.cfg.NodeID != p.To {
			continue
		}
		if is, left := m.frost.frozen(); is {
			if left <= 0 || p.Kind == link.Connect || p.Kind == link.Gossip {
				return link.Fate{Drop: true}, true
			}
			return link.Fate{Delay: left}, true
		}
	}
	return link.Fate{}, false
}

// Pause implements Cluster: see frost for what it is.
func (n *Nodes) Pause(node int, lasts time.Duration) error {
	m := n.members()[node]
	if up, _ := m.up(); up == nil {
		return ErrDown
	}
	m.frost.freeze(lasts)
	return nil
}

// Resume implements Cluster.
func (n *Nodes) Resume(node int) error {
	n.members()[node].frost.melt(true)
	return nil
}
