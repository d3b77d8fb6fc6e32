package check

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// state is one namespace as the model sees it: it is never changed, but copied.
type state struct {
	era       int // how many restores there were
	algorithm wire.Algorithm
	owners    []ownerRecord // by name
	fences    []fence       // by path
	key       string        // equal for equal states
}

// ownerRecord is what is known of one owner. What was not seen to end is kept, though its
// time may be over: whoever sees that it is gone takes it out.
type ownerRecord struct {
	owner string
	held  bool
	waits bool          // has a place in the queue, or was granted since
	token int64         // of the hold, 0: not known
	sure  time.Duration // the hold is not over before
	stays time.Duration // who waits is found waiting, or holding, until then
	over  time.Duration // nothing is left of it then
}

type fence struct {
	path  string
	token int64
}

func (s *state) find(owner string) *ownerRecord {
	i, ok := slices.BinarySearchFunc(s.owners, owner,
		func(x ownerRecord, o string) int { return cmp.Compare(x.owner, o) })
	if !ok {
		return nil
	}
	return &s.owners[i]
}

// next is a copy to be changed, without what is over at a time.
func (s *state) next(now time.Duration) *state {
	n := &state{era: s.era, algorithm: s.algorithm, fences: slices.Clone(s.fences),
		owners: make([]ownerRecord, 0, len(s.owners)+1)}
	for i := range s.owners {
		if s.owners[i].over > now {
			n.owners = append(n.owners, s.owners[i])
		}
	}
	return n
}

// put sets what is known of an owner; nothing is kept of one that neither holds nor
// waits.
func (s *state) put(st ownerRecord) {
	i, ok := slices.BinarySearchFunc(s.owners, st.owner,
		func(x ownerRecord, o string) int { return cmp.Compare(x.owner, o) })
	switch {
	case !st.held && !st.waits && ok:
		s.owners = slices.Delete(s.owners, i, i+1)
	case !st.held && !st.waits:
	case ok:
		s.owners[i] = st
	default:
		s.owners = slices.Insert(s.owners, i, st)
	}
}

func (s *state) fence(path string) int64 {
	i, ok := slices.BinarySearchFunc(s.fences, path, func(x fence, p string) int { return cmp.Compare(x.path, p) })
	if !ok {
		return 0
	}
	return s.fences[i].token
}

func (s *state) setFence(path string, token int64) {
	i, ok := slices.BinarySearchFunc(s.fences, path, func(x fence, p string) int { return cmp.Compare(x.path, p) })
	if ok {
		s.fences[i].token = token
		return
	}
	s.fences = slices.Insert(s.fences, i, fence{path, token})
}

// seal makes the state comparable.
func (s *state) seal() *state {
	b := make([]byte, 0, 64*len(s.owners)+16*len(s.fences))
	num := func(n int64) { b = append(strconv.AppendInt(b, n, 36), ' ') }
	num(int64(s.era))
	num(int64(s.algorithm))
	for i := range s.owners {
		o := &s.owners[i]
		b = append(append(b, o.owner...), ' ')
		if o.held {
			b = append(b, 'h')
		}
		if o.waits {
			b = append(b, 'w')
		}
		num(o.token)
		num(int64(o.sure))
		num(int64(o.stays))
	}
	for i := range s.fences {
		b = append(append(b, s.fences[i].path...), ' ')
		num(s.fences[i].token)
	}
	s.key = string(b)
	return s
}
