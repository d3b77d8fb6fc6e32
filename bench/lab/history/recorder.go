package history

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// Recorder collects a History. Its methods may be called by any number of goroutines.
type Recorder struct {
	start time.Time
	mu    struct {
		sync.Mutex
		h    History
		open map[*Op]Op // as they began, and what was told of them since
	}
}

// NewRecorder starts the clock.
func NewRecorder() *Recorder {
	r := &Recorder{start: time.Now()}
	r.mu.open = make(map[*Op]Op)
	return r
}

// Now is the time of the run.
func (r *Recorder) Now() time.Duration { return time.Since(r.start) }

// Begin records that an operation is about to be asked. Its owner keeps it, fills in the
// answer, and hands it to End.
func (r *Recorder) Begin(op Op) *Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	op.Call, op.Return, op.Era = r.Now(), Forever, len(r.mu.h.Restores)
	kept := op
	r.mu.open[&kept] = op
	return &kept
}

// Place records that an open call was told its place, when it was asked for so many times.
// It may come late, from a connection that its client has left.
func (r *Recorder) Place(op *Op, asks int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen, ok := r.mu.open[op]
	if !ok || seen.Placed != 0 || asks <= seen.left {
		return
	}
	seen.Placed = r.Now()
	r.mu.open[op], op.Placed = seen, seen.Placed
}

// Leave records that the client closed the connection that an open call waited on, when it
// had asked so many times. That takes the call out of the queue, so its place is no more;
// asked again, it has another.
func (r *Recorder) Leave(op *Op, asks int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen, ok := r.mu.open[op]
	if !ok {
		return
	}
	seen.Placed, seen.left = 0, asks
	r.mu.open[op], op.Placed = seen, 0
}

// End records what became of an operation.
func (r *Recorder) End(op *Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	op.Return = r.Now()
	if op.Outcome == Unknown {
		op.Return = Forever
	}
	delete(r.mu.open, op)
	r.mu.h.Ops = append(r.mu.h.Ops, *op)
}

// Access records a step at a resource.
func (r *Recorder) Access(a Access) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.h.Accesses = append(r.mu.h.Accesses, a)
}

// Fault records a fault that is over.
func (r *Recorder) Fault(f Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.To = r.Now()
	r.mu.h.Faults = append(r.mu.h.Faults, f)
}

// Restored records that a backup took the place of what there was, and that what is asked
// from now on is asked of the new cluster.
func (r *Recorder) Restored(x Restore) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x.Began = r.Now()
	r.mu.h.Restores = append(r.mu.h.Restores, x)
}

// Era is how many restores there were.
func (r *Recorder) Era() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.mu.h.Restores)
}

// Digests records what replicas look like.
func (r *Recorder) Digests(d []Digest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.h.Digests = append(r.mu.h.Digests, d...)
}

// Ear records what was heard of an owner.
func (r *Recorder) Ear(e Ear) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.h.Ears = append(r.mu.h.Ears, e)
}

// Cost records what a kind of request took.
func (r *Recorder) Cost(c Cost) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.h.Costs = append(r.mu.h.Costs, c)
}

// Stuck records that somebody waits in vain though nothing is broken any more.
func (r *Recorder) Stuck(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.h.Stuck = append(r.mu.h.Stuck, what)
}

// Settle records that all faults are healed, and that nobody begins anything new.
func (r *Recorder) Settle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.h.Settled = r.Now()
}

// Count is how many operations have ended.
func (r *Recorder) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.mu.h.Ops)
}

// History is what was recorded. What is still under way is in it as unknown.
func (r *Recorder) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.mu.h
	h.Ops = append([]Op(nil), h.Ops...)
	for _, op := range r.mu.open {
		h.Ops = append(h.Ops, op)
	}
	h.End = r.Now()
	return &h
}

// Save writes a history to a file.
func (h *History) Save(name string) error {
	b, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("save history: %w", err)
	}
	if err := os.WriteFile(name, b, 0o600); err != nil {
		return fmt.Errorf("save history: %w", err)
	}
	return nil
}

// Load reads one that Save wrote.
func Load(name string) (*History, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("load history: %w", err)
	}
	h := new(History)
	if err := json.Unmarshal(b, h); err != nil {
		return nil, fmt.Errorf("load history %s: %w", name, err)
	}
	return h, nil
}
