package replica

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// Fences of paths that nobody locks any more are folded (engine/fold.go), so that disk and
// memory follow what is held and was used lately, and not all paths there ever were.
//
// Every replica looks through the fences on its disk from time to time, and deletes those
// that a floor stands for. The leader's counts them too, and proposes what to fold: an
// entry of the log, so that nothing depends on whose count it was. Where there are few it
// folds nothing, and never what was let go lately. Who has the server mint its tokens
// notices nothing: they are above every floor. A caller's own token may find a floor where
// its path's fence was lower, or where there was none; the bounds say when.

// FoldBounds say what is folded, and how it is looked for.
type FoldBounds struct {
	Age   time.Duration // of the lease clock: what was let go within it does not fold
	Many  int           // fences of a namespace, else of a handler, else of a group, up to which none fold
	Most  int           // up to which a floor stays below the callers' own tokens that were used lately in the handler
	Every time.Duration // how often the node looks whether there is anything to do
	Slice int           // fences looked at, and deleted, at once
	Pause time.Duration // between two slices
}

var DefaultFolding = FoldBounds{
	Age: time.Hour, Many: 65_536, Most: 1 << 20, Every: time.Minute, Slice: 2048, Pause: 4 * time.Millisecond,
}

// maxFoldHandlers is how many handlers of a group are counted on their own; those beyond
// are counted as one.
const maxFoldHandlers = 1024

// swept is what is known of a group's fences on disk. Guarded by the machine's checkpoints.
type swept struct {
	floors engine.Floors // on disk: what they fold may be deleted
	done   engine.Floors // those at the last look
	looked bool          // there was one
	at     int64         // lease clock then, ms
	left   int           // fences it left
	fresh  int           // written since, at most: of paths old and new
}

// due says that it is time to look again.
func (w *swept) due(b *FoldBounds, now int64) bool {
	if !w.looked || !w.floors.Equal(w.done) {
		return true
	}
	return w.left+w.fresh > b.Many && now-w.at >= b.Age.Milliseconds()/4
}

// written takes note of a fence's row that a checkpoint writes.
func (w *swept) written(row []byte) {
	if engine.IsFenceRow(row) {
		w.fresh++
	}
}

// tally counts fences.
type tally struct {
	all, old        int
	lowest, highest int64 // tokens of old ones
}

// addOld counts old ones in.
func (t *tally) addOld(old int, lowest, highest int64) {
	if t.old == 0 || old > 0 && lowest < t.lowest {
		t.lowest = lowest
	}
	t.old, t.highest = t.old+old, max(t.highest, highest)
}

func (t *tally) add(o tally) {
	t.all += o.all
	t.addOld(o.old, o.lowest, o.highest)
}

// floor is the token up to which the counted fences should fold, 0 for none. low is the
// lowest of the callers' own tokens that were used lately.
func (t *tally) floor(b *FoldBounds, low int64) int64 {
	if t.all <= b.Many || t.old < b.Many/4 {
		return 0
	}
	token := t.highest
	if t.all <= b.Most {
		token = min(token, low-1)
	}
	if token < t.lowest {
		return 0 // nothing would fold
	}
	return token
}

// handlerTally is what a handler's namespaces have together.
type handlerTally struct {
	tally       // of those that have few
	low   int64 // of all
}

// Fold is a command to propose.
type Fold struct {
	root, NS string // as the command names them
	Token    int64
	Fences   int // about so many fold
}

// sweep is one look through the fences of a group.
type sweep struct {
	m      *Machine
	group  uint16
	bounds *FoldBounds
	now    int64
	at     []byte // key to go on from
	end    []byte
	done   engine.Floors
	left   int
	began  bool
	gone   [][]byte // keys to delete of the slice in hand
	missed bool     // some that are folded are not deleted

	ns       string
	tally    tally // of ns
	big      []Fold
	bigTally []tally
	handlers map[string]*handlerTally
	others   handlerTally // handlers that have no tally of their own
}

func (m *Machine) newSweep(group uint16) *sweep {
	from, to := engine.FenceTable()
	return &sweep{
		m: m, group: group, bounds: m.Folding, now: m.Now.Load(),
		at: GroupKey(nil, group, []byte(from)), end: GroupKey(nil, group, []byte(to)),
		handlers: make(map[string]*handlerTally), others: handlerTally{low: math.MaxInt64},
	}
}

// slice looks at the next fences and deletes those that are folded. over says that it has
// seen them all, or that there is nothing to look at any more.
//
// It looks without a lock, for nobody says how long that takes where many were deleted.
// Rows of fences are written by checkpoints and installations alone: if one was while it
// looked, nothing is deleted until the next sweep. Floors are those on disk, and not those
// in memory: after a crash a start goes on from the disk, and must not miss fences that
// nothing there stands for.
func (w *sweep) slice() (over bool, err error) {
	floors, writes, there := w.floors()
	if !there {
		return true, nil
	}
	if !w.began {
		w.began, w.done = true, floors
	}
	it, err := w.m.Store.db.NewIter(&pebble.IterOptions{LowerBound: w.at, UpperBound: w.end})
	if err != nil {
		return true, err
	}
	head := len(GroupKey(nil, w.group, nil))
	w.gone = w.gone[:0]
	for n := 0; n < w.bounds.Slice; n++ {
		if n == 0 && !it.First() || n > 0 && !it.Next() {
			over = true
			break
		}
		f, err := engine.ParseFence(it.Value())
		if err != nil {
			return true, errors.Join(err, it.Close())
		}
		row := it.Key()[head:]
		if floors.Fold(row, f.Token) || engine.Planted == engine.PlantFoldedAway && f.Token%3 == 0 {
			w.gone = append(w.gone, bytes.Clone(it.Key()))
		} else {
			w.count(row, &f)
		}
		w.at = append(append(w.at[:0], it.Key()...), 0)
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return true, err
	}
	return over, w.delete(over, writes)
}

// floors are those of the group on disk, and how many writes there were to the log's rows;
// there is false when these are no state.
func (w *sweep) floors() (floors engine.Floors, writes uint64, there bool) {
	m := w.m
	m.Checkpoints.Lock()
	defer m.Checkpoints.Unlock()
	g := m.Groups[w.group]
	if m.Gone || m.Installing.Load() || g == nil {
		return nil, 0, false
	}
	return g.swept.floors, m.writes, true
}

// delete deletes what is folded of a slice, of which the last is over.
func (w *sweep) delete(over bool, writes uint64) error {
	m := w.m
	m.Checkpoints.Lock()
	defer m.Checkpoints.Unlock()
	if m.Gone || m.Installing.Load() {
		return nil
	}
	if m.writes != writes {
		w.missed = w.missed || len(w.gone) > 0
	} else if len(w.gone) > 0 {
		b := m.Store.db.NewBatch()
		defer b.Close()
		for _, key := range w.gone {
			if err := b.Delete(key, nil); err != nil {
				return err
			}
		}
		if err := b.Commit(pebble.NoSync); err != nil {
			return err
		}
	}
	if g := m.Groups[w.group]; over && g != nil {
		w.leave("")
		s := &g.swept
		s.looked, s.at, s.done, s.left, s.fresh = !w.missed, w.now, w.done, w.left, 0
	}
	return nil
}

// count counts a fence that stays.
func (w *sweep) count(row []byte, f *engine.Fence) {
	w.left++
	if ns := engine.FenceNamespace(row); ns != w.ns {
		w.leave(ns)
	}
	w.tally.all++
	switch {
	case f.Freed <= w.now-w.bounds.Age.Milliseconds():
		w.tally.addOld(1, f.Token, f.Token)
	case f.Own:
		w.own(w.ns, f.Token)
	}
}

// leave ends the count of a namespace, whose fences stand together, and begins the next.
func (w *sweep) leave(next string) {
	if w.tally.all > w.bounds.Many {
		w.big = append(w.big, Fold{root: w.ns, NS: w.ns})
		w.bigTally = append(w.bigTally, w.tally)
	} else if w.tally.all > 0 {
		w.of(w.ns).add(w.tally)
	}
	w.ns, w.tally = string([]byte(next)), tally{}
}

// of is the tally of a namespace's handler.
func (w *sweep) of(ns string) *handlerTally {
	name := wire.PathHandler(ns)
	h := w.handlers[name]
	if h == nil {
		if len(w.handlers) >= maxFoldHandlers {
			return &w.others
		}
		h = &handlerTally{low: math.MaxInt64}
		w.handlers[name] = h
	}
	return h
}

// own takes note of a caller's own token that was used lately.
func (w *sweep) own(ns string, token int64) {
	h := w.of(ns)
	h.low = min(h.low, token)
}

// folds answers what should be folded, once all was counted.
func (w *sweep) folds() (all []Fold) {
	if w.left <= w.bounds.Many {
		return nil
	}
	w.m.View(w.group).OwnTokens(w.own)
	add := func(f Fold, t *tally, low int64) {
		if f.Token, f.Fences = t.floor(w.bounds, low), t.old; f.Token > 0 {
			all = append(all, f)
		}
	}
	for i := range w.big {
		add(w.big[i], &w.bigTally[i], w.of(w.big[i].NS).low)
	}
	rest, low := w.others.tally, w.others.low
	for _, name := range slices.Sorted(maps.Keys(w.handlers)) {
		h := w.handlers[name]
		low = min(low, h.low)
		if h.all > w.bounds.Many {
			add(Fold{root: name}, &h.tally, h.low)
		} else {
			rest.add(h.tally)
		}
	}
	add(Fold{}, &rest, low)
	return all
}

// SweepFences looks through a group's fences, if it is time, and answers what to fold: nothing when pause, which it
// calls between slices, says that the node stops.
func (m *Machine) SweepFences(group uint16, pause func() bool) ([]Fold, error) {
	m.Checkpoints.Lock()
	g := m.Groups[group]
	due := g != nil && g.swept.due(m.Folding, m.Now.Load())
	m.Checkpoints.Unlock()
	if !due {
		return nil, nil
	}
	for w := m.newSweep(group); ; {
		if over, err := w.slice(); over || err != nil {
			return w.folds(), err
		}
		if !pause() {
			return nil, nil
		}
	}
}

// Request is the command that folds.
func (f *Fold) Request() *wire.Request {
	return &wire.Request{Op: wire.OpFold, Namespace: f.root, Token: f.Token}
}

// Of names the scope to people.
func (f *Fold) Of() string {
	switch {
	case f.NS != "":
		return "namespace " + f.NS
	case f.root != "":
		return "handler " + f.root
	}
	return "the group"
}
