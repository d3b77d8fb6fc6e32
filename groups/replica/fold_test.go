package replica

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	sm "github.com/lni/dragonboat/v4/statemachine"
	"github.com/zeebo/xxh3"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// feeder makes the entries of a log, as its leader would, and keeps those that a start of a
// replica may have to be told again.
type feeder struct {
	t       testing.TB
	w       BatchWriter
	index   uint64
	number  uint64
	now     int64 // stamp of the last entry
	entries []sm.Entry
	to      []*Machine
}

var feederEpoch = LeaderEpoch{Term: 1, Node: 1, Incarnation: 1}

func newFeeder(t testing.TB, to ...*Machine) *feeder {
	f := &feeder{t: t, to: to}
	f.give(AppendLeaderEpoch(nil, rows.OldestFormat, feederEpoch, DefaultLimits()))
	return f
}

// give appends an entry and has every replica apply it.
func (f *feeder) give(data []byte) {
	f.t.Helper()
	f.index++
	e := sm.Entry{Index: f.index, Cmd: bytes.Clone(data)}
	f.entries = append(f.entries, e)
	for _, m := range f.to {
		if _, err := m.Update([]sm.Entry{e}); err != nil {
			f.t.Fatal(err)
		}
	}
}

// add puts a command into the next entry.
func (f *feeder) add(group uint16, ns string, req *wire.Request) {
	body, nargs := wire.AppendArgs(nil, req)
	f.w.Add(&Command{Group: group, Op: req.Op, NArgs: nargs, Body: body, NSLen: len(ns)}, 0)
}

// lock takes a path and lets it go, in the next entry. Its namespace is what routing makes
// of it.
func (f *feeder) lock(path string, token int64) {
	ns := wire.NewRoutes(0, 1, nil).Resolve(path)
	g := groupIn(ns, len(f.to[0].Numbers))
	req := write("o", path, time.Hour)
	req.Token = token
	f.add(g, ns, req)
	f.add(g, ns, release("o", path))
}

// step gives the entry, after so much time of the lease clock, 2 s at most.
func (f *feeder) step(d time.Duration) {
	f.number++
	f.now += d.Milliseconds()
	h := BatchHead{Format: rows.OldestFormat, LeaderEpoch: feederEpoch, Number: f.number, Stamp: f.now, Wall: 1}
	f.give(f.w.Entry(&h))
	f.w.Reset()
}

// pass lets time go by.
func (f *feeder) pass(d time.Duration) {
	for ; d > 0; d -= 2 * time.Second {
		f.step(min(d, 2*time.Second))
	}
}

// always is a pause of who is not stopped.
func always() bool { return true }

// fold looks through the fences of a replica that leads, and puts the folds into the log.
func (f *feeder) fold(m *Machine) (folds []Fold) {
	f.t.Helper()
	for _, number := range m.Numbers {
		found, err := m.SweepFences(number, always)
		if err != nil {
			f.t.Fatal(err)
		}
		for i := range found {
			f.add(number, found[i].NS, found[i].Request())
		}
		folds = append(folds, found...)
	}
	if len(folds) > 0 {
		f.step(0)
	}
	return folds
}

// fence is what a replica answers for the fence of a path.
func (f *feeder) fence(m *Machine, path string) int64 {
	ns := wire.NewRoutes(0, 1, nil).Resolve(path)
	return m.View(groupIn(ns, len(m.Numbers))).Inspect(ns, path).Token
}

// same holds that replicas are the same, in all that their digests say and in the fences of
// paths.
func (f *feeder) same(what string, a, b *Machine, paths []string) {
	f.t.Helper()
	if x, y := a.Digest(), b.Digest(); x != y {
		f.t.Fatalf("%s: its digest is %+v, want %+v", what, y, x)
	}
	for _, path := range paths {
		if x, y := f.fence(a, path), f.fence(b, path); x != y {
			f.t.Fatalf("%s: the fence of %s is %d, want %d", what, path, y, x)
		}
	}
}

// written brings a replica's disk up to date, and its memory down to what it needs.
func (f *feeder) written(m *Machine) {
	f.t.Helper()
	if err := m.Checkpoint(false); err != nil {
		f.t.Fatal(err)
	}
	m.Evict()
}

// fencesOn counts the fences on a replica's disk.
func (f *feeder) fencesOn(m *Machine) (n int) {
	f.t.Helper()
	from, to := engine.FenceTable()
	for _, number := range m.Numbers {
		head := GroupKey(nil, number, nil)
		first, last := GroupKey(nil, number, []byte(from)), GroupKey(nil, number, []byte(to))
		err := each(m.Store.db, first, last, len(head), func(_, _ []byte) error {
			n++
			return nil
		})
		if err != nil {
			f.t.Fatal(err)
		}
	}
	return n
}

// inMemory counts the fences that a replica has in memory.
func inMemory(m *Machine) (n int) {
	for _, g := range m.Order {
		n += g.State.Stats().Fences
	}
	return n
}

// groupIn is the group of a namespace, of so many.
func groupIn(ns string, of int) uint16 { return uint16(xxh3.HashString(ns) % uint64(of)) }

// machines are replicas of a log with so many groups, each with a disk of its own.
func machines(t testing.TB, n, groups int, b FoldBounds) (all []*Machine) {
	numbers := make([]uint16, groups)
	for i := range numbers {
		numbers[i] = uint16(i)
	}
	for range n {
		all = append(all, newMachineOn(t, quiet{}, Config{Shard: rows.FirstLog, Numbers: numbers, Folding: &b}))
	}
	return all
}

// restarted is a replica made anew of what is on a replica's disk, told the entries since.
func (f *feeder) restarted(m *Machine) *Machine {
	f.t.Helper()
	again := New(m.Config)
	if err := again.Load(); err != nil {
		f.t.Fatal(err)
	}
	f.catchUp(again)
	return again
}

func (f *feeder) catchUp(m *Machine) {
	f.t.Helper()
	at, found := slices.BinarySearchFunc(f.entries, m.Applied+1, func(e sm.Entry, index uint64) int {
		return int(e.Index) - int(index)
	})
	if !found && m.Applied != f.index {
		f.t.Fatalf("the entries after %d are not kept", m.Applied)
	}
	for _, e := range f.entries[at:] {
		if _, err := m.Update([]sm.Entry{e}); err != nil {
			f.t.Fatal(err)
		}
	}
}

// installed makes a replica that was nothing what another is, by a snapshot.
func (f *feeder) installed(to, from *Machine) {
	f.t.Helper()
	image, err := from.PrepareSnapshot()
	if err != nil {
		f.t.Fatal(err)
	}
	var b bytes.Buffer
	if err := from.SaveSnapshot(image, &b, nil); err != nil {
		f.t.Fatal(err)
	}
	if err := to.RecoverFromSnapshot(&b, nil); err != nil {
		f.t.Fatal(err)
	}
}

// TestNewPaths locks paths that were never locked before, for a day of the lease clock:
// half of them in one namespace, half of them each in one of its own. What
// is on disk and in memory follows what was used lately; tokens and fences never go back;
// and replicas that fold at other times, that start anew, and that are installed from a
// snapshot in the middle of it are the same.
//
// PATHLOCKD_LONG=1 has ten days, and ten times as many paths in each.
func TestNewPaths(t *testing.T) {
	perStep, span := 4, 24*time.Hour
	if os.Getenv("PATHLOCKD_LONG") != "" {
		perStep, span = 40, 10*span
	}
	// a second: 1000 take a core 25 minutes a day
	if rate, _ := strconv.Atoi(os.Getenv("PATHLOCKD_NEW_PATHS")); rate > 0 {
		perStep = 2 * rate
	}
	const tick, every = 2 * time.Second, 150 // a checkpoint every 5 minutes
	bounds := FoldBounds{Age: time.Hour, Many: 500 * perStep, Most: 1 << 20, Slice: 2048}
	all := machines(t, 3, 4, bounds)
	leads, follows, later := all[0], all[1], all[2]
	f := newFeeder(t, leads, follows)
	samples, tokens := []string{}, map[string]int64{}
	folds, steps, paths, most, memory := 0, int(span/tick), 0, 0, 0
	recent := int((bounds.Age*3/2)/tick) * perStep // let go lately, until somebody looks again
	for step := range steps {
		for range perStep {
			path := fmt.Sprintf("jobs:/all/%d", paths)
			if paths%2 == 0 {
				path = fmt.Sprintf("job:/%d", paths)
			}
			if paths%(997*perStep) == 0 {
				samples = append(samples, path)
			}
			f.lock(path, 0)
			paths++
		}
		f.step(tick)
		if step%every != 0 {
			continue
		}
		memory = max(memory, inMemory(leads))
		f.written(leads)
		folds += len(f.fold(leads))
		if step%(5*every) == 0 { // it falls behind, and looks at its fences at other times
			f.written(follows)
			for _, number := range follows.Numbers {
				if _, err := follows.SweepFences(number, always); err != nil {
					t.Fatal(err)
				}
			}
		}
		if step%(3*every) == 0 {
			most = max(most, f.fencesOn(leads))
		}
		for _, path := range samples {
			if got := f.fence(leads, path); got < tokens[path] || got == 0 {
				t.Fatalf("step %d: the fence of %s went from %d back to %d", step, path, tokens[path], got)
			} else {
				tokens[path] = got
			}
		}
		switch step / every {
		case steps / every / 2:
			f.same("the other one", leads, follows, samples)
			f.installed(later, follows)
			f.same("the installed one", leads, later, samples)
			f.to = append(f.to, later)
		case steps / every * 3 / 4:
			f.pass(time.Minute)
			again := f.restarted(leads)
			f.same("after a start", leads, again, samples)
			leads, f.to[0] = again, again
		}
		if step%(5*every) == 0 {
			f.entries = slices.Delete(f.entries, 0, max(0, len(f.entries)-12*every))
		}
	}
	for _, path := range samples { // all of them are locked once more
		f.lock(path, 0)
	}
	f.step(0)
	for _, path := range samples {
		if got := f.fence(leads, path); got <= tokens[path] {
			t.Fatalf("%s was given out with token %d after its fence was %d", path, got, tokens[path])
		}
	}
	f.same("the other one", leads, follows, samples)
	f.same("the installed one", leads, later, samples)
	left := f.fencesOn(leads)
	space := leads.Store.db.Metrics().DiskSpaceUsage()
	t.Logf("%d paths in %v: at most %d fences on disk and %d in memory, %d left; %d folds; %d KiB on disk",
		paths, span, most, memory, left, folds, space>>10)
	if limit := 4*(bounds.Many+bounds.Many/4) + recent; most > limit {
		t.Errorf("%d fences were on disk, at most %d are many a group or were used lately", most, limit)
	}
	if limit := 2 * perStep * every; memory > limit {
		t.Errorf("%d fences were in memory, %d paths are locked from checkpoint to checkpoint", memory, perStep*every)
	}
}

// TestFoldBounds: what is folded, and what is not.
func TestFoldBounds(t *testing.T) {
	bounds := FoldBounds{Age: time.Hour, Many: 40, Most: 100, Slice: 7}
	m := machines(t, 1, 1, bounds)[0]
	f := newFeeder(t, m)
	number := 0
	fill := func(n int, path string, token int64) {
		for range n {
			number++
			own := token
			if token != 0 {
				own = token + int64(number)
			}
			f.lock(fmt.Sprintf(path, number), own)
		}
		f.step(0)
	}
	look := func() []Fold {
		t.Helper()
		f.pass(bounds.Age/4 + time.Minute)
		f.written(m)
		folds := f.fold(m)
		f.written(m)
		f.fold(m) // deletes
		return folds
	}
	expect := func(what string, want ...string) {
		t.Helper()
		var got []string
		for _, fold := range look() {
			got = append(got, fold.Of())
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: folds of %q, want %q", what, got, want)
		}
	}
	fill(40, "a:/few/%d", 0)
	f.pass(2 * bounds.Age)
	expect("few fences")
	fill(41, "a:/many/%d", 0)
	expect("many, but used lately")
	f.pass(bounds.Age)
	before := f.fencesOn(m)
	expect("many of a namespace", "namespace a:/many")
	if got := f.fencesOn(m); got != before-41 {
		t.Errorf("%d of %d fences are left, 41 should be gone", got, before)
	}
	fill(10, "b:/%d", 0)
	fill(25, "b:/%d", 0)
	f.pass(2 * bounds.Age)
	expect("few of each handler, many of the group", "the group")
	fill(41, "c:/%d", 0)
	f.pass(2 * bounds.Age)
	expect("many namespaces with one path", "handler c")

	// A caller counts by itself, far below what is minted.
	const own, late = 1000, 500
	f.lock("own:/n/high", 100_000)
	fill(50, "own:/n/%d", own)
	f.pass(bounds.Age)
	f.lock("own:/n/late", late)
	f.step(0)
	floor := f.fence(m, "own:/n/never")
	expect("a caller's own token that was used lately is lower than all that are old")
	if got := f.fence(m, "own:/n/late"); got != late || floor >= late {
		t.Errorf("the fence of what was used lately is %d, want %d (%d)", got, late, floor)
	}
	fill(60, "own:/n/%d", own)
	f.pass(bounds.Age)
	f.lock("own:/n/late", late+1)
	f.step(0)
	expect("too many to spare anybody", "namespace own:/n")
	if got := f.fence(m, "own:/n/late"); got < 100_000 {
		t.Errorf("a fence of a namespace that was folded up to 100000 is %d", got)
	}
	if got := f.fence(m, "other:/n/x"); got >= late {
		t.Errorf("another namespace's paths have the fence %d", got)
	}
}

// TestFloorsOnDisk: fences are deleted once their floor is on disk, and not before: a start
// goes on from the disk, and applies again what was judged by them.
func TestFloorsOnDisk(t *testing.T) {
	bounds := FoldBounds{Age: time.Minute, Many: 10, Most: 100, Slice: 1000}
	m := machines(t, 1, 1, bounds)[0]
	f := newFeeder(t, m)
	var paths []string
	for i := range 20 {
		paths = append(paths, fmt.Sprintf("h:/a/%d", i))
		f.lock(paths[i], 0)
	}
	f.step(0)
	f.pass(2 * bounds.Age)
	f.written(m)
	f.lock(paths[0], 1) // below its fence
	f.step(0)
	if folds := f.fold(m); len(folds) != 1 {
		t.Fatalf("%d folds", len(folds))
	}
	sweep := func(want int) {
		t.Helper()
		m.Checkpoints.Lock()
		m.Groups[0].swept.looked = false
		m.Checkpoints.Unlock()
		if _, err := m.SweepFences(0, always); err != nil {
			t.Fatal(err)
		}
		if got := f.fencesOn(m); got != want {
			t.Fatalf("%d fences are on disk, want %d", got, want)
		}
		f.same("after a start", m, f.restarted(m), paths)
	}
	sweep(len(paths))
	f.written(m)
	sweep(0)
}
