package replica

import (
	"encoding/binary"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/codec"
	"github.com/pathlockd/pathlockd/wire"
)

// The order of a session, in its log.
//
// What a connection asks about one namespace goes to its log in the order in which it was sent (line.go). But a log
// may come to see it in another one all the same: an acquire is refused, dropped with its connection, or overtaken over
// two moves, while the release behind it is carried out; then the client asks both again, and the acquire is new while
// the release is known. So the answers that a log keeps for a session say which paths they are about, and what comes
// too late changes nothing that what came after it in the session's order has settled: an acquire takes nothing that a
// later release gave back, and a release does not give back what a later acquire took. Ids say what is later.
//
// What is not counted: a release that names a token or a request says itself what it gives back; what has a key is
// known by that; a wait that is granted later is in no order with what was asked meanwhile; and what is about more than
// MaxSessionMarks paths.

// marks is the paths that an answer is about, each as a name: that it was taken, or given back. There are none if they
// are many.
type marks struct {
	one  uint64                       // 0: none
	more *[MaxSessionMarks - 1]uint64 // the others, 0 for no further one; nil for none
}

// MaxSessionMarks is how many paths an answer tells apart.
const MaxSessionMarks = 8

// What happens to a path.
const (
	markTook byte = iota
	markGave
	markBack // by a release that names the acquire
)

// markOf names what happened to a path of an owner in a mode.
func markOf(what byte, owner, path string, mode wire.Mode) uint64 {
	var b [64]byte
	name := append(b[:0], what, byte(mode))
	name = append(append(append(name, owner...), 0), path...)
	return max(xxh3.Hash(name), 1)
}

// names calls f with the names of what a request takes, if that is asked for, and of what it gives back.
func names(req *wire.Request, f func(name uint64)) {
	if req.Op == wire.OpAcquire {
		for i := range req.Locks {
			if l := &req.Locks[i]; l.State != wire.StateHeld { // which is only looked for
				f(markOf(markTook, req.Owner, l.Path, l.Mode))
			}
		}
	}
	gave := markGave
	if req.Target != 0 {
		gave = markBack
	}
	for i := range req.Releases {
		f(markOf(gave, req.Owner, req.Releases[i].Path, req.Releases[i].Mode))
	}
}

// inOrder says that a request has its place in the order of ids.
func inOrder(req *wire.Request) bool {
	return req.Key == "" && (req.Op == wire.OpAcquire || req.Op == wire.OpRelease && req.Token == 0 && req.Target == 0)
}

// marksOf is what the answer to a request that was carried out is about.
func marksOf(req *wire.Request) (k marks) {
	if !inOrder(req) && req.Target == 0 || len(req.Locks)+len(req.Releases) > MaxSessionMarks {
		return k
	}
	n := 0
	names(req, func(name uint64) {
		k.set(n, name)
		n++
	})
	return k
}

// set makes a name the n-th.
func (k *marks) set(n int, name uint64) {
	if n == 0 {
		k.one = name
		return
	}
	if k.more == nil {
		k.more = new([MaxSessionMarks - 1]uint64)
	}
	k.more[n-1] = name
}

// each calls f with the names.
func (k *marks) each(f func(name uint64)) {
	if k.one == 0 {
		return
	}
	f(k.one)
	if k.more == nil {
		return
	}
	for _, name := range k.more {
		if name == 0 {
			return
		}
		f(name)
	}
}

// append appends them to a row.
func (k *marks) append(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, 0)
	k.each(func(name uint64) {
		dst[at]++
		dst = binary.BigEndian.AppendUint64(dst, name)
	})
	return dst
}

// marks reads what append appends.
func readMarks(r *codec.Reader) (k marks) {
	n := int(r.Byte())
	if n > MaxSessionMarks {
		r.Err = codec.ErrMalformed
		return k
	}
	for i := range n {
		name := uint64(0)
		if b := r.Bytes(8); b != nil {
			name = binary.BigEndian.Uint64(b)
		}
		k.set(i, name)
	}
	return k
}

// each calls f with the answers that are kept and not settled: when those that are go, each replica has for itself.
func (s *Session) each(f func(*answered)) {
	kept := s.kept()
	for i := range kept {
		if kept[i].id < s.settled {
			continue
		}
		f(&kept[i].answered)
		for j := range kept[i].more {
			f(&kept[i].more[j])
		}
	}
}

// late says that the session has asked something after a request, of which there are answers: what the request does may
// be in their order.
func (s *Session) late(id uint64, req *wire.Request) bool {
	return id < s.highest && inOrder(req) && engine.Planted != engine.PlantOutOfLine
}

// done says that an answer is of something that was carried out.
func (a *answered) done() bool { return a.code == wire.OK && a.status == wire.StatusOK }

// history is the highest ids of answers by which a release's paths were taken, and given back, in their order; 0 for
// none.
func (s *Session) history(req *wire.Request, are func(a *answered, name uint64) bool) (took, gave []uint64) {
	n := len(req.Releases)
	looked := make([]uint64, 2*n)
	for i, r := range req.Releases {
		looked[i], looked[n+i] = markOf(markTook, req.Owner, r.Path, r.Mode),
			markOf(markGave, req.Owner, r.Path, r.Mode)
	}
	last := s.lasts(looked, are)
	return last[:n], last[n:]
}

// lasts is the highest ids of answers about each of some names, of those that are what is looked for; in their order, 0
// for none.
func (s *Session) lasts(looked []uint64, are func(a *answered, name uint64) bool) []uint64 {
	last := make([]uint64, len(looked))
	at := make(map[uint64]int, len(looked))
	few := uint64(0) // a bit for each: thousands are looked through, and hardly any is one of them
	for i, name := range looked {
		at[name] = i
		few |= 1 << (name & 63)
	}
	s.each(func(a *answered) {
		if !a.done() {
			return
		}
		a.marks.each(func(name uint64) {
			if few&(1<<(name&63)) == 0 {
				return
			}
			if i, ok := at[name]; ok && are(a, name) {
				last[i] = max(last[i], a.id)
			}
		})
	})
	for i, name := range looked { // some may stand there twice
		last[i] = last[at[name]]
	}
	return last
}

// any says that there is an answer to what the session asked later, and was carried out.
func (s *Session) any(id uint64, op wire.Op) (found bool) {
	s.each(func(a *answered) {
		found = found || a.id > id && (op == 0 || a.op == op) && a.marks.one != 0 && a.done()
	})
	return found
}

// gaveBack says that something was carried out that the session asked later, and which gives back what an acquire would
// take.
func (s *Session) gaveBack(id uint64, req *wire.Request) bool {
	if !s.late(id, req) || !s.any(id, 0) {
		return false
	}
	var gives []uint64
	for i := range req.Locks {
		if l := &req.Locks[i]; l.State != wire.StateHeld {
			gives = append(gives, markOf(markGave, req.Owner, l.Path, l.Mode))
		}
	}
	return slices.Max(append(s.lasts(gives, func(a *answered, _ uint64) bool { return a.id > id }), 0)) > 0
}

// tookAnew takes what the session took later, and has not given back since, out of what a request gives back.
func (s *Session) tookAnew(id uint64, req *wire.Request) {
	if len(req.Releases) == 0 || !s.late(id, req) || !s.any(id, wire.OpAcquire) {
		return
	}
	back := s.takenBack(req)
	took, gave := s.history(req, func(a *answered, name uint64) bool { return a.id > id && !back(a, name) })
	var left []wire.ReleaseRequest
	for i, r := range req.Releases {
		if took[i] <= gave[i] {
			left = append(left, r)
		}
	}
	req.Releases = left
}

// takenBack finds the releases that name an acquire. What it returns says that such a one gave back what an acquire
// took, which has a name among what req gives back.
func (s *Session) takenBack(req *wire.Request) func(acquire *answered, took uint64) bool {
	type given struct{ acquire, name uint64 } // name 0: all of it, as more was given back than is told apart
	gave, about := make(map[uint64]uint64, len(req.Releases)), make(map[uint64]bool, len(req.Releases))
	few := uint64(0) // a bit for each that it is about: thousands are looked through, and hardly any is one
	for _, r := range req.Releases {
		back := markOf(markBack, req.Owner, r.Path, r.Mode)
		gave[markOf(markTook, req.Owner, r.Path, r.Mode)], about[back] = back, true
		few |= 1 << (back & 63)
	}
	parts := make(map[given]bool)
	s.each(func(a *answered) {
		if a.op != wire.OpRelease || a.token == 0 || !a.done() {
			return
		}
		a.marks.each(func(name uint64) {
			if few&(1<<(name&63)) != 0 && about[name] {
				parts[given{uint64(a.token), name}] = true
			}
		})
		if a.marks.one == 0 {
			parts[given{uint64(a.token), 0}] = true
		}
	})
	if len(parts) == 0 {
		return func(*answered, uint64) bool { return false }
	}
	return func(acquire *answered, took uint64) bool {
		return parts[given{acquire.id, gave[took]}] || parts[given{acquire.id, 0}]
	}
}

// owes says that something of a release that was carried out in parts is left to be done, and takes all else out of it:
// what no part in this log was about, and the session took in it before. As when a part was carried out, the acquire
// before it was not, and all its paths are in the namespace of that part when both are asked again.
func (s *Session) owes(id uint64, req *wire.Request) bool {
	if req.Op != wire.OpRelease || !inOrder(req) {
		return false
	}
	all := false // there is no telling what was given back
	s.each(func(a *answered) { all = all || a.id == id && a.marks.one == 0 })
	if all {
		return false
	}
	took, gave := s.history(req, func(a *answered, _ uint64) bool {
		return a.id == id || a.id < id && a.op == wire.OpAcquire
	})
	var left []wire.ReleaseRequest
	for i, r := range req.Releases {
		if took[i] > gave[i] {
			left = append(left, r)
		}
	}
	if len(left) == 0 {
		return false
	}
	req.Releases = left
	return true
}
