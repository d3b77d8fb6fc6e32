package engine

import (
	"fmt"
	"slices"

	"github.com/pathlockd/pathlockd/trie"
	"github.com/pathlockd/pathlockd/wire"
)

// How a state that was saved becomes the first of another cluster.
//
// The old cluster went on after it was saved. It minted tokens of which the saved
// state knows nothing, and gave locks to others; what these locks protect has seen
// those tokens. So no token of the old cluster may count in the new one, whether it
// was minted before the backup or after: all of them are at or below a base, and
// Raise lifts everything above it.
//
//   - The counter starts above the base: what is minted is above it.
//   - The base is a floor for every path of the group, known or not. It takes the
//     place of the fences of paths that nobody holds, and refuses callers' own tokens
//     up to it.
//   - Holds stay, and get new tokens, in the order and with the sameness of the old
//     ones, as do queued requests the tokens that were minted for them. Their owners
//     do not know these: to assert with what they knew fails, until they ask for
//     their locks again, which answers the new token.
//
// A token of a caller's own with which a write waits has not raised the counter yet.
// The old cluster may have granted it, and have minted above it: so the base is above
// those as well (Highest), and the new cluster refuses them as their turn comes.
//
// A token that a caller itself brought after the backup, beyond the base, is the one
// that cannot be helped (design, promise 3).

// Raise makes a loaded state, of which nothing is on disk, the first of a cluster in
// which no token up to base counts; base must be at least the state's Highest. What
// was answered to keyed requests is forgotten.
func (s *State) Raise(base int64) {
	if highest := s.Highest(); base < highest {
		panic(fmt.Sprintf("engine: the base %d of a restore is below the token %d", base, highest))
	}
	s.attempt = 0 // the next cluster counts its attempts anew
	if Planted == PlantRestoreReuse {
		return
	}
	var holds, ghosts, waiters, spaces, answers []string
	fresh := make(map[int64]int64)
	s.holds.All().AscendClass(classWrite.Mask(), func(key string, h *hold) bool {
		if h.alg != wire.Semaphore {
			holds, fresh[h.token] = append(holds, key), 0
		}
		return true
	})
	s.holds.All().AscendClass(classGhost.Mask(), collect[hold](&ghosts))
	s.waiters.All().Ascend(func(key string, w *waiter) bool {
		if w.token > 0 && !w.own {
			waiters, fresh[w.token] = append(waiters, key), 0
		}
		return true
	})
	s.marks.All().Ascend(func(key string, m *int64) bool {
		spaces, fresh[*m] = append(spaces, key), 0
		return true
	})
	s.kept.All().Ascend(collect[kept](&answers))

	old := make([]int64, 0, len(fresh))
	for token := range fresh {
		old = append(old, token)
	}
	slices.Sort(old)
	for i, token := range old {
		fresh[token] = base + 1 + int64(i)
	}
	for _, key := range holds {
		h := s.holds.Edit(s.w, key)
		h.token = fresh[h.token]
	}
	for _, key := range waiters {
		w := s.waiters.Edit(s.w, key)
		w.token = fresh[w.token]
	}
	for _, key := range spaces {
		m := s.marks.Edit(s.w, key)
		*m = fresh[*m]
	}
	s.holds.RemoveAll(s.w, ghosts)
	for _, key := range answers {
		s.forget(key)
	}
	s.counter = base + int64(len(old))
	s.floors = []floor{{Token: base}}
}

// EndCalls has open calls of sessions that are end as of an instant, ms of the lease clock: they keep nobody waiting
// from then on, and get nothing.
func (s *State) EndCalls(now int64, are func(Session) bool) {
	for _, c := range s.OpenCalls() {
		if are(c.Session) {
			w := s.editWaiter(s.callOf(c.Caller))
			w.deadline = min(w.deadline, now)
			s.deadlines.arm(w.timer, w.deadline)
		}
	}
}

func collect[V any](keys *[]string) func(string, *V) bool {
	return func(key string, _ *V) bool {
		*keys = append(*keys, key)
		return true
	}
}

// Counter is at least every token the group ever stored or minted.
func (s *State) Counter() int64 { return s.counter }

// Highest is at least every token that the group ever stored or minted, and every one of
// a caller's own with which a write waits. What waits for reads or permits alone may bring
// any token, as none is stored for it.
func (s *State) Highest() int64 {
	token := s.counter
	s.waiters.All().Ascend(func(_ string, w *waiter) bool {
		if w.own && writesAny(w.alg, w.wants) {
			token = max(token, w.token)
		}
		return true
	})
	return token
}

// Freezing lists the roots that are being moved.
func (s *State) Freezing() (roots []string) {
	for _, f := range s.frozen {
		roots = append(roots, f.root)
	}
	return roots
}

// Audit holds a loaded state against rules that Load does not need: an error says
// which one is broken. That every path lies in the group's namespaces is asked of
// home.
func (s *State) Audit(home func(ns string) bool) (err error) {
	s.holds.All().AscendClass(liveHolds, func(key string, h *hold) bool {
		path := wire.Quote(pathOf(key))
		switch ns := namespaceOf(key); {
		case !home(ns):
			err = fmt.Errorf("engine: %s is in namespace %s, which is none of the group's", path, wire.Quote(ns))
		case h.token > s.counter:
			err = fmt.Errorf("engine: %s is held with token %d, above the group's counter %d", path, h.token, s.counter)
		case h.mode == wire.ModeWrite && h.alg != wire.Semaphore:
			err = s.alone(key, h)
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	s.waiters.All().Ascend(func(key string, w *waiter) bool {
		switch seq := seqOf(key); {
		case seq > s.seq:
			err = fmt.Errorf("engine: waiter %d came after the last arrival %d", seq, s.seq)
		case w.token > s.counter && !w.own:
			err = fmt.Errorf("engine: waiter %d has token %d, above the group's counter %d", seq, w.token, s.counter)
		}
		return err == nil
	})
	return err
}

// alone says that nobody else covers or reads what a write hold is on.
func (s *State) alone(key string, h *hold) (err error) {
	s.holds.Walk(key, func(at int, st trie.Step[hold]) bool {
		if o := st.Value(); o != nil && isBoundary(key, at) && o.owner != "" && o.owner != h.owner &&
			o.alg.Recursive() && h.alg.Recursive() {
			err = fmt.Errorf("engine: %s is held by %s and what lies above it by %s",
				wire.Quote(pathOf(key)), wire.Quote(h.owner), wire.Quote(o.owner))
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	if other := firstOther(s.holds.Sub(key+readSuffix), h.owner); other != "" {
		err = fmt.Errorf("engine: %s is written by %s and read by %s", wire.Quote(pathOf(key)), wire.Quote(h.owner),
			wire.Quote(other))
	}
	return err
}

// Raise is State.Raise for the cluster-wide counter. What was asked of nodes is
// forgotten with the nodes, and what was answered to keyed requests; a policy change
// that is under way goes on, and is known by its key: who repeats it waits for its end.
func (s *System) Raise(base int64) {
	s.counter = max(s.counter, base)
	s.keepers, s.aging, s.attempt = make(shares), nil, 0
	for name, k := range s.kept {
		if k.of = 0; k.pending { // the sessions are over
			s.kept[name] = k
		} else {
			delete(s.kept, name)
		}
	}
	clear(s.marks)
}

// Counter is the highest cluster-wide token that was answered.
func (s *System) Counter() int64 { return s.counter }

// Policies counts the namespaces that somebody chose an algorithm for, and the
// changes of policies that are under way.
func (s *System) Policies() (chosen, pending int) { return len(s.roots), len(s.intents) }

// Changes grows with every step that a policy change takes: two images of the system
// group between which it is the same were taken while none did.
func (s *System) Changes() uint64 {
	ended := s.nextID - uint64(len(s.intents))
	return s.nextID + s.version + ended
}

// Tally counts rows by what they say.
type Tally struct {
	Writes   int // write holds
	Shared   int // reads and semaphore permits
	Fences   int // of paths that nobody holds
	Leases   int
	Waiters  int
	Policies int
	Edges    int // wait edges
	Kept     int // answers to keyed requests
}

// Add counts a row of a group.
func (t *Tally) Add(row []byte) {
	if len(row) == 0 {
		return
	}
	switch row[0] {
	case tableHold:
		t.Writes++
	case tableShared:
		t.Shared++
	case tableFence:
		t.Fences++
	case tableLease:
		t.Leases++
	case tableWaiter:
		t.Waiters++
	case tablePolicy:
		t.Policies++
	case tableEdge:
		t.Edges++
	case tableKept:
		t.Kept++
	}
}
