package groups

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	sm "github.com/lni/dragonboat/v4/statemachine"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// feeder makes the entries of a log, as its leader would, and keeps those that a start of a
// replica may have to be told again.
type feeder struct {
	t       testing.TB
	r       *rig
	w       batchWriter
	index   uint64
	number  uint64
	now     int64 // stamp of the last entry
	entries []sm.Entry
	to      []*machine
}

var feederEpoch = leaderEpoch{term: 1, node: 1, incarnation: 1}

func newFeeder(r *rig, to ...*machine) *feeder {
	f := &feeder{t: r.t, r: r, to: to}
	f.give(appendLeaderEpoch(nil, rows.OldestFormat, feederEpoch, defaultLimits()))
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
	f.w.add(&part{group: group, op: req.Op, nargs: nargs, body: body, nsLen: len(ns)})
}

// lock takes a path and lets it go, in the next entry. Its namespace is what routing makes
// of it.
func (f *feeder) lock(path string, token int64) {
	ns := f.r.node.routes.Load().Resolve(path)
	g := f.r.node.groupOf(ns)
	req := write("o", path, time.Hour)
	req.Token = token
	f.add(g, ns, req)
	f.add(g, ns, release("o", path))
}

// step gives the entry, after so much time of the lease clock, 2 s at most.
func (f *feeder) step(d time.Duration) {
	f.number++
	f.now += d.Milliseconds()
	h := batchHead{format: rows.OldestFormat, leaderEpoch: feederEpoch, number: f.number, stamp: f.now, wall: 1}
	f.give(f.w.entry(&h))
	f.w.reset()
}

// pass lets time go by.
func (f *feeder) pass(d time.Duration) {
	for ; d > 0; d -= 2 * time.Second {
		f.step(min(d, 2*time.Second))
	}
}

// fold looks through the fences of a replica that leads, and puts the folds into the log.
func (f *feeder) fold(m *machine) (folds []fold) {
	f.t.Helper()
	for _, number := range m.node.groupsOf(m.shard) {
		found, err := m.sweepFences(number)
		if err != nil {
			f.t.Fatal(err)
		}
		for i := range found {
			f.add(number, found[i].ns, found[i].request())
		}
		folds = append(folds, found...)
	}
	if len(folds) > 0 {
		f.step(0)
	}
	return folds
}

// fence is what a replica answers for the fence of a path.
func (f *feeder) fence(m *machine, path string) int64 {
	ns := f.r.node.routes.Load().Resolve(path)
	return m.view(f.r.node.groupOf(ns)).Inspect(ns, path).Token
}

// same holds that replicas are the same, in all that their digests say and in the fences of
// paths.
func (f *feeder) same(what string, a, b *machine, paths []string) {
	f.t.Helper()
	if x, y := a.digest(), b.digest(); x != y {
		f.t.Fatalf("%s: its digest is %+v, want %+v", what, y, x)
	}
	for _, path := range paths {
		if x, y := f.fence(a, path), f.fence(b, path); x != y {
			f.t.Fatalf("%s: the fence of %s is %d, want %d", what, path, y, x)
		}
	}
}

// written brings a replica's disk up to date, and its memory down to what it needs.
func (f *feeder) written(m *machine) {
	f.t.Helper()
	if err := m.checkpoint(false); err != nil {
		f.t.Fatal(err)
	}
	m.evict()
}

// fencesOn counts the fences on a replica's disk.
func (f *feeder) fencesOn(m *machine) (n int) {
	f.t.Helper()
	from, to := engine.FenceTable()
	for _, number := range m.node.groupsOf(m.shard) {
		head := groupKey(nil, number, nil)
		first, last := groupKey(nil, number, []byte(from)), groupKey(nil, number, []byte(to))
		err := each(m.store.db, first, last, len(head), func(_, _ []byte) error {
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
func inMemory(m *machine) (n int) {
	for _, g := range m.order {
		n += g.state.Stats().Fences
	}
	return n
}

// machines are replicas of a log, each with a disk of its own.
func (r *rig) machines(n int, b foldBounds) (all []*machine) {
	for range n {
		m := r.machineOf(firstLogShard)
		m.node.cfg.folding, m.node.tasks = b, goroutines{}
		m.node.formats.begin(rows.OldestFormat)
		all = append(all, m)
	}
	return all
}

// restarted is a replica made anew of what is on a replica's disk, told the entries since.
func (f *feeder) restarted(m *machine) *machine {
	f.t.Helper()
	again := newMachine(m.node, m.shard, m.replica)
	if err := again.load(); err != nil {
		f.t.Fatal(err)
	}
	f.catchUp(again)
	return again
}

func (f *feeder) catchUp(m *machine) {
	f.t.Helper()
	at, found := slices.BinarySearchFunc(f.entries, m.applied+1, func(e sm.Entry, index uint64) int {
		return int(e.Index) - int(index)
	})
	if !found && m.applied != f.index {
		f.t.Fatalf("the entries after %d are not kept", m.applied)
	}
	for _, e := range f.entries[at:] {
		if _, err := m.Update([]sm.Entry{e}); err != nil {
			f.t.Fatal(err)
		}
	}
}

// installed makes a replica that was nothing what another is, by a snapshot.
func (f *feeder) installed(to, from *machine) {
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
	if rate, _ := strconv.Atoi(os.Getenv("PATHLOCKD_NEW_PATHS")); rate > 0 { // a second: 1000 take a core 25 minutes a day
		perStep = 2 * rate
	}
	const tick, every = 2 * time.Second, 150 // a checkpoint every 5 minutes
	bounds := foldBounds{age: time.Hour, many: 500 * perStep, most: 1 << 20, slice: 2048}
	r := newRig(t, func(c *Config) { c.GroupCount, c.LogCount = 4, 1 })
	all := r.machines(3, bounds)
	leads, follows, later := all[0], all[1], all[2]
	f := newFeeder(r, leads, follows)
	samples, tokens := []string{}, map[string]int64{}
	folds, steps, paths, most, memory := 0, int(span/tick), 0, 0, 0
	recent := int((bounds.age*3/2)/tick) * perStep // let go lately, until somebody looks again
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
			for _, number := range follows.node.groupsOf(follows.shard) {
				if _, err := follows.sweepFences(number); err != nil {
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
	space := leads.store.db.Metrics().DiskSpaceUsage()
	t.Logf("%d paths in %v: at most %d fences on disk and %d in memory, %d left; %d folds; %d KiB on disk",
		paths, span, most, memory, left, folds, space>>10)
	if limit := 4*(bounds.many+bounds.many/4) + recent; most > limit {
		t.Errorf("%d fences were on disk, at most %d are many a group or were used lately", most, limit)
	}
	if limit := 2 * perStep * every; memory > limit {
		t.Errorf("%d fences were in memory, %d paths are locked from checkpoint to checkpoint", memory, perStep*every)
	}
}

// TestFoldBounds: what is folded, and what is not.
func TestFoldBounds(t *testing.T) {
	bounds := foldBounds{age: time.Hour, many: 40, most: 100, slice: 7}
	r := newRig(t, func(c *Config) { c.GroupCount, c.LogCount = 1, 1 })
	m := r.machines(1, bounds)[0]
	f := newFeeder(r, m)
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
	look := func() []fold {
		t.Helper()
		f.pass(bounds.age/4 + time.Minute)
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
			got = append(got, fold.of())
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: folds of %q, want %q", what, got, want)
		}
	}
	fill(40, "a:/few/%d", 0)
	f.pass(2 * bounds.age)
	expect("few fences")
	fill(41, "a:/many/%d", 0)
	expect("many, but used lately")
	f.pass(bounds.age)
	before := f.fencesOn(m)
	expect("many of a namespace", "namespace a:/many")
	if got := f.fencesOn(m); got != before-41 {
		t.Errorf("%d of %d fences are left, 41 should be gone", got, before)
	}
	fill(10, "b:/%d", 0)
	fill(25, "b:/%d", 0)
	f.pass(2 * bounds.age)
	expect("few of each handler, many of the group", "the group")
	fill(41, "c:/%d", 0)
	f.pass(2 * bounds.age)
	expect("many namespaces with one path", "handler c")

	// A caller counts by itself, far below what is minted.
	const own, late = 1000, 500
	f.lock("own:/n/high", 100_000)
	fill(50, "own:/n/%d", own)
	f.pass(bounds.age)
	f.lock("own:/n/late", late)
	f.step(0)
	floor := f.fence(m, "own:/n/never")
	expect("a caller's own token that was used lately is lower than all that are old")
	if got := f.fence(m, "own:/n/late"); got != late || floor >= late {
		t.Errorf("the fence of what was used lately is %d, want %d (%d)", got, late, floor)
	}
	fill(60, "own:/n/%d", own)
	f.pass(bounds.age)
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
	bounds := foldBounds{age: time.Minute, many: 10, most: 100, slice: 1000}
	r := newRig(t, func(c *Config) { c.GroupCount, c.LogCount = 1, 1 })
	m := r.machines(1, bounds)[0]
	f := newFeeder(r, m)
	var paths []string
	for i := range 20 {
		paths = append(paths, fmt.Sprintf("h:/a/%d", i))
		f.lock(paths[i], 0)
	}
	f.step(0)
	f.pass(2 * bounds.age)
	f.written(m)
	f.lock(paths[0], 1) // below its fence
	f.step(0)
	if folds := f.fold(m); len(folds) != 1 {
		t.Fatalf("%d folds", len(folds))
	}
	sweep := func(want int) {
		t.Helper()
		m.checkpoints.Lock()
		m.groups[0].swept.looked = false
		m.checkpoints.Unlock()
		if _, err := m.sweepFences(0); err != nil {
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

// TestFoldedTokens: a caller's own token meets a floor, and never what is held; the server's
// own tokens do not notice.
func TestFoldedTokens(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.GroupCount, c.LogCount = 1, 1
		c.folding = foldBounds{
			age: 4 * time.Second, many: 8, most: 1 << 20, slice: 5, every: math.MaxInt64, pause: time.Microsecond,
		}
	})
	r.clock.freeze()
	c := r.session()
	held := c.must(write("holder", "h:/a/held", 24*time.Hour))
	highest := int64(0)
	for i := range 20 {
		path := fmt.Sprintf("h:/a/%d", i)
		highest = c.must(write("o", path, time.Hour)).Token
		c.must(release("o", path))
	}
	for range 40 { // the lease clock goes at most 2 s an entry
		r.clock.advance(2 * time.Second)
		c.must(write("tick", "t:/t/t", time.Hour))
	}
	m := r.node.logs[firstLogShard].local.Load()
	for range 3 { // it is counted, proposed and on disk, deleted
		if err := m.checkpoint(false); err != nil {
			t.Fatal(err)
		}
		r.node.foldFences()
	}
	token := func(path string, token int64) *wire.Request {
		req := write("own", path, time.Hour)
		req.Token, req.Flags = token, wire.FlagNoQueue
		return req
	}
	for _, path := range []string{"h:/a/3", "h:/a/never"} {
		if res := c.inspect(path); !res.Flag || res.Token != highest {
			t.Errorf("the fence of %s is %d, want %d", path, res.Token, highest)
		}
		res := c.ask(token(path, highest))
		if res.Status != wire.StatusConflict || res.Reason != wire.ReasonStaleFencingToken || res.Current != highest {
			t.Errorf("the token %d for %s: %+v", highest, path, res)
		}
		if res := c.must(token(path, highest+1)); res.Token != highest+1 {
			t.Errorf("the token %d for %s: %+v", highest+1, path, res)
		}
	}
	if res := c.inspect("h:/a/held"); res.Token != held.Token {
		t.Errorf("the fence of what is held is %d, want %d", res.Token, held.Token)
	}
	mine := write("holder", "h:/a/held", 24*time.Hour)
	mine.Token = held.Token
	if res := c.must(mine); res.Token != held.Token {
		t.Errorf("what is held, once more with its token: %+v", res)
	}
	c.must(&wire.Request{Op: wire.OpAssertFencing, Owner: "holder", Token: held.Token, Paths: []string{"h:/a/held"}})
	c.must(release("holder", "h:/a/held"))
	if res := c.inspect("h:/a/held"); res.Token != highest {
		t.Errorf("the fence of what was let go is %d, want %d", res.Token, highest)
	}
	if res := c.inspect("h:/b/x"); res.Flag {
		t.Errorf("another namespace has the fence %d", res.Token)
	}
	digests := r.digests()
	r.restart()
	if got := r.digests(); fmt.Sprint(got) != fmt.Sprint(digests) {
		t.Errorf("after a start the digests are %v, want %v", got, digests)
	}
	if res := r.session().inspect("h:/a/3"); res.Token != highest+1 {
		t.Errorf("after a start the fence of h:/a/3 is %d, want %d", res.Token, highest+1)
	}
}
