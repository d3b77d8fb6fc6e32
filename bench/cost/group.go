// Package cost measures what the lock rules cost by themselves: engine.Apply on one
// group, with no log, network or disk around it.
package cost

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

const (
	// batch is how many commands come with the same instant, as one entry of a log
	// has them.
	batch = 100
	// maxQueued is the limit on queued paths, raised so that a million can wait.
	maxQueued = 1 << 21
	// namespaces is how many the paths of Held lie in.
	namespaces = 64
)

// Group is one group's state, and plays requests against it as its log would. It
// has no clock: leases in it do not end.
type Group struct {
	state  *engine.State
	out    engine.Output
	now    int64
	steps  int
	nextID uint64 // of a waiting acquire
	acq    wire.Request
	rel    wire.Request
}

// NewGroup makes an empty group.
func NewGroup() *Group {
	cfg := engine.DefaultConfig()
	cfg.MaxQueued = maxQueued
	return &Group{
		state: engine.New(cfg, nil, nil), now: 1,
		acq: wire.Request{Op: wire.OpAcquire, TTLMillis: wire.MaxTTLMillis, QueueTTLMillis: wire.MaxTTLMillis,
			Locks: make([]wire.LockRequest, 1)},
		rel: wire.Request{Op: wire.OpRelease, Releases: make([]wire.ReleaseRequest, 1)},
	}
}

// step begins a new batch when the last one is full.
func (g *Group) step() {
	if g.steps++; g.steps%batch == 0 {
		g.now++
		g.out.Reset()
	}
}

// acquire asks for a write lock on a path whose namespace is its first ns bytes.
func (g *Group) acquire(owner, path string, ns int) wire.Status {
	g.step()
	g.acq.Owner, g.acq.Locks[0].Path = owner, path
	res := g.state.Apply(engine.Clock{Now: g.now}, &engine.Command{Req: &g.acq, NS: path[:ns]}, &g.out)
	if res.Code != wire.OK {
		panic(fmt.Sprintf("cost: an acquire of %s was refused: %s", path, res.Message))
	}
	return res.Status
}

// wait asks for a write lock and waits for it. The ids of those that wait grow by
// one.
func (g *Group) wait(owner, path string, ns int) {
	g.step()
	g.nextID++
	g.acq.Owner, g.acq.Locks[0].Path, g.acq.Flags = owner, path, wire.FlagWait
	// a session may have a quarter of the queue
	caller := engine.Caller{Session: engine.Session{1 + byte(g.nextID%8)}, ID: g.nextID}
	res := g.state.Apply(engine.Clock{Now: g.now}, &engine.Command{Req: &g.acq, NS: path[:ns], Caller: caller}, &g.out)
	g.acq.Flags = 0
	if res.Code != wire.OK || res.Status != wire.StatusQueued {
		panic(fmt.Sprintf("cost: an acquire of %s does not wait: %v %s", path, res.Status, res.Message))
	}
}

// release lets a write lock go.
func (g *Group) release(owner, path string, ns int) {
	g.step()
	g.rel.Owner, g.rel.Releases[0].Path = owner, path
	g.state.Apply(engine.Clock{Now: g.now}, &engine.Command{Req: &g.rel, NS: path[:ns]}, &g.out)
}

// written makes the state what it is after a checkpoint: all of it is on disk, and
// fences that nobody holds are no longer in memory.
func (g *Group) written() {
	v := g.state.Checkpoint()
	g.state.Written(v.Mark())
	for !g.state.EvictFences(1 << 20) {
	}
}

// namespaceBytes is the length of the namespace that the paths of pathOf begin with.
const namespaceBytes = len("bench:/ns00")

// pathOf is the i-th path: four segments, those next to each other in different
// namespaces.
func pathOf(i int) string {
	return fmt.Sprintf("bench:/ns%02d/a%02d/b%02d/c%07d", i%namespaces, i/namespaces%50, i/(namespaces*50)%50, i)
}

// Held answers a group in which n paths are held by so many owners.
func Held(n, owners int) *Group {
	g := NewGroup()
	for i := range n {
		if g.acquire(fmt.Sprintf("owner-%d", i%owners), pathOf(i), namespaceBytes) != wire.StatusOK {
			panic("cost: a path that nobody holds is not granted")
		}
	}
	g.out.Reset()
	g.written()
	return g
}

// HeldHeap answers such a group too, and the heap that each of its locks takes, in
// bytes, after a forced collection.
func HeldHeap(n, owners int) (*Group, float64) {
	before := heap()
	g := Held(n, owners)
	return g, float64(heap()-before) / float64(n)
}

// heap is the heap in use, in bytes, after a forced collection.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers let go
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// median of the values, which it sorts.
func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// Rows calls emit with every row of the group, as a snapshot has them.
func (g *Group) Rows(emit func(row, val []byte) error) error { return g.state.View().Rows(0, emit) }
