package naive

import (
	"bytes"
	"fmt"
	"maps"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// replica is a state, the disk under it, and what it said in the step in hand.
type replica struct {
	cfg     engine.Config
	state   *engine.State
	disk    disk
	out     engine.Output
	owners  watch
	pending *engine.View // a checkpoint that is being written
	seen    *engine.View // of the same state, made before it began
	folded  int          // rows of fences that are gone
	old     *engine.View // some earlier view, which must stay as it was
	oldSum  uint64
}

// disk is rows by key.
type disk map[string][]byte

// write takes rows over as a checkpoint gives them.
func (d disk) write(key, val []byte) error {
	if val == nil {
		delete(d, string(key))
	} else {
		d[string(key)] = bytes.Clone(val)
	}
	return nil
}

// watch counts in how many namespaces an owner stands.
type watch map[string]int

func (w watch) OwnerCame(owner string) { w[owner]++ }
func (w watch) OwnerWent(owner string) { w[owner]-- }

func newReplica(cfg engine.Config) *replica {
	r := &replica{cfg: cfg, disk: make(disk), owners: make(watch)}
	r.state = engine.New(cfg, r, r.owners)
	return r
}

// Fence answers from disk, which has every fence that left memory.
func (r *replica) Fence(key string) (int64, bool) {
	val, ok := r.disk[engine.FenceRow(key)]
	if !ok {
		return 0, false
	}
	token, err := engine.DecodeFence(val)
	if err != nil {
		panic(err)
	}
	return token, true
}

// expire ends all that is due.
func (r *replica) expire(c engine.Clock) {
	for r.state.Expire(c, &r.out) {
	}
}

// apply carries a command out that lies in a buffer of its own, which is
// overwritten afterwards as the buffers of real commands are: what the state or
// the result needs of it they must have copied.
func (r *replica) apply(c engine.Clock, cmd *ask) wire.Result {
	buf, n := wire.AppendArgs(nil, cmd.Req)
	ns, meta := []byte(cmd.NS), bytes.Clone(cmd.Meta)
	var req wire.Request
	if err := wire.DecodeArgs(cmd.Req.Op, buf, n, &req); err != nil {
		panic(err)
	}
	own := cmd.Command
	own.Req, own.NS, own.Meta = &req, unsafe.String(unsafe.SliceData(ns), len(ns)), meta
	res := cmd.apply(r.state, c, &own, &r.out)
	for _, b := range [][]byte{buf, ns, meta} {
		for i := range b {
			b[i] = 0xfe
		}
	}
	clear(req.Locks)
	clear(req.Releases)
	return res
}

// load makes a state of rows, in no order. Fences stay on disk, or come into memory
// too.
func (r *replica) load(t *rapid.T, rows disk, fences bool, owners engine.OwnerWatch) *engine.State {
	s := engine.New(r.cfg, r, owners)
	for key, val := range rows {
		if engine.IsFenceRow([]byte(key)) && !fences {
			continue
		}
		if err := s.Load([]byte(key), val); err != nil {
			t.Fatalf("load: %v", err)
		}
	}
	if err := s.Loaded(); err != nil {
		t.Fatalf("loaded: %v", err)
	}
	return s
}

// reload goes on with a state made of a snapshot's rows, as a replica does that
// fell behind: what fences the snapshot had on disk only, it finds there.
func (r *replica) reload(t *rapid.T) {
	want := r.state.View()
	rows := make(disk)
	if err := want.Rows(0, rows.write); err != nil {
		t.Fatalf("rows: %v", err)
	}
	r.pending, r.owners = nil, make(watch)
	r.state = r.load(t, rows, true, r.owners)
	for key, val := range r.disk {
		if engine.IsFenceRow([]byte(key)) && rows[key] == nil {
			rows[key] = val
		}
	}
	r.disk = rows
	if got := r.state.View().Digest(); got != want.Digest() {
		t.Fatalf("a state made of a snapshot's rows differs: %s", diffRows(r.state.View(), want))
	}
}

// checkpoint begins one. Steps may be taken before it is written.
func (r *replica) checkpoint() {
	if r.pending == nil {
		r.seen = r.state.View()
		r.pending = r.state.Checkpoint()
	}
}

// flush ends a checkpoint: what differs goes to disk, and what is there now is
// all that a restart needs. Then up to budget fences may leave memory.
func (r *replica) flush(t *rapid.T, budget int) {
	v := r.pending
	if v == nil {
		return
	}
	if err := v.Rows(v.Since(), r.disk.write); err != nil {
		t.Fatalf("rows: %v", err)
	}
	r.pending = nil
	r.state.Written(v.Mark())
	fresh := r.load(t, r.disk, false, nil)
	if fresh.View().Digest() != v.Digest() {
		t.Fatalf("a state made of its disk's rows differs: %s", diffRows(fresh.View(), v))
	}
	// A view that somebody made before, laid over what is on disk now, is still its state.
	image := maps.Clone(r.disk)
	if err := r.seen.Rows(r.seen.Since(), image.write); err != nil {
		t.Fatalf("rows: %v", err)
	}
	if again := r.load(t, image, false, nil); again.View().Digest() != r.seen.Digest() {
		t.Fatalf("a view over a younger disk is another state: %s", diffRows(again.View(), r.seen))
	}
	// Rows of fences that are folded may go, once the floors are on disk.
	for key, val := range r.disk {
		row := []byte(key)
		if !engine.IsFenceRow(row) {
			continue
		}
		f, err := engine.ParseFence(val)
		if err != nil {
			t.Fatalf("fence: %v", err)
		}
		if v.Floors().Fold(row, f.Token) {
			delete(r.disk, key)
			r.folded++
		}
	}
	r.state.EvictFences(budget)
}

// restart goes on with what is on disk, after a checkpoint without steps since.
func (r *replica) restart(t *rapid.T) {
	r.flush(t, 0)
	r.checkpoint()
	r.flush(t, 0)
	r.owners = make(watch)
	r.state = r.load(t, r.disk, false, r.owners)
}

// remember checks that an earlier view is what it was, and takes another.
func (r *replica) remember(t *rapid.T) {
	if r.old != nil && r.old.Digest() != r.oldSum {
		t.Fatalf("a view changed after it was taken")
	}
	r.old = r.state.View()
	r.oldSum = r.old.Digest()
}

// diffRows says in which rows two views differ.
func diffRows(got, want *engine.View) string {
	rows := func(v *engine.View) disk {
		d := make(disk)
		if err := v.Rows(0, d.write); err != nil {
			panic(err)
		}
		return d
	}
	g, w := rows(got), rows(want)
	var diff bytes.Buffer
	for key, val := range g {
		if !engine.IsFenceRow([]byte(key)) && !bytes.Equal(val, w[key]) {
			fmt.Fprintf(&diff, "\n got %q = %x", key, val)
		}
	}
	for key, val := range w {
		if !engine.IsFenceRow([]byte(key)) && !bytes.Equal(val, g[key]) {
			fmt.Fprintf(&diff, "\nwant %q = %x", key, val)
		}
	}
	return diff.String()
}
