package engine

import (
	"math"
	"slices"

	"github.com/pathlockd/pathlockd/wire"
)

// relied is the requests that rely on a hold (Caller.mark): the one that took it, and those of its
// owner that named it since. A request that is taken back (granted_by, PROTOCOL.md) gives the hold
// back once it is the last of them. It never changes but as a whole: holds are copied.
type relied struct {
	// by is the first; 0: it is nobody's to take back, for more rely on it than are noted, or one without a name.
	by   uint64
	also *[maxRelied - 1]uint64 // the others, nil for none; 0 for no further one
}

// ofNobody is in the place of a request that nothing relies on any more. (That a request is named so is not to be
// feared.)
const ofNobody = math.MaxUint64

// maxRelied is how many requests a hold notes that rely on it. Programs that share an owner and ask
// for one path at a time are few; of more, no request takes the hold back, and it is given back by
// its path or ends with its lease.
const maxRelied = 16

// each calls f for the requests until it answers false.
func (r *relied) each(f func(by uint64) bool) {
	if r.by == 0 || !f(r.by) || r.also == nil {
		return
	}
	for _, by := range r.also {
		if by == 0 || !f(by) {
			return
		}
	}
}

// all is the requests, none when nobody is to take the hold back.
func (r *relied) all() []uint64 { return slices.Collect(r.each) }

func (r *relied) has(by uint64) bool {
	return by != 0 && (r.by == by || r.also != nil && slices.Contains(r.also[:], by))
}

// of says that one of some requests relies on the hold, or that it may: it does not say which do, or they have no
// names.
func (r *relied) of(some []uint64) bool {
	return r.by == 0 || len(some) == 0 ||
		slices.ContainsFunc(some, func(by uint64) bool { return by == 0 || r.has(by) })
}

// only says that nobody else relies on the hold.
func (r *relied) only(by uint64) bool { return r.by == by && r.also == nil }

// set makes the list anew. One that is too long, or has a request without a name, is of nobody.
func (r *relied) set(all []uint64) {
	*r = relied{}
	if len(all) == 0 || len(all) > maxRelied || slices.Contains(all, 0) {
		return
	}
	if r.by = all[0]; len(all) > 1 {
		r.also = new([maxRelied - 1]uint64)
		copy(r.also[:], all[1:])
	}
}

// add notes one more request.
func (r *relied) add(by uint64) { r.set(append(r.all(), by)) }

// remove takes a request away that is not the only one.
func (r *relied) remove(by uint64) {
	r.set(slices.DeleteFunc(r.all(), func(b uint64) bool { return b == by }))
}

// replace puts a request in another one's place.
func (r *relied) replace(by, with uint64) {
	all := r.all()
	if r.has(with) {
		all = slices.DeleteFunc(all, func(b uint64) bool { return b == by })
	} else {
		all[slices.Index(all, by)] = with
	}
	r.set(all)
}

// further is how many fields of a hold's row tell of more than one request.
func (r *relied) further() int {
	if r.also == nil {
		return 0
	}
	return 1
}

// appendAlso appends the requests but the first to the hold's row, if there are any.
func (r *relied) appendAlso(dst []byte) []byte {
	if r.also == nil {
		return dst
	}
	more := r.all()[1:]
	dst = wire.AppendArray(dst, len(more))
	for _, by := range more {
		dst = wire.AppendUint(dst, by)
	}
	return dst
}

// loadAlso reads them. It comes behind the first.
func (r *relied) loadAlso(row *wire.Reader) {
	all := []uint64{r.by}
	for n := row.Array(); n > 0; n-- {
		all = append(all, row.Uint())
	}
	r.set(all)
}
