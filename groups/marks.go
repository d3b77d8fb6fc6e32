package groups

import (
	"encoding/binary"
	"slices"

	"github.com/zeebo/xxh3"

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
// A release that names a token or a request tells itself what it gives back, and is not counted here.

// marks is the paths that an answer is about, as far as they are few.
type marks struct {
	one  uint64
	more *[maxMarks - 1]uint64 // the others, 0 for no further one; nil for none
	many bool                  // they are more: one is of the owner alone
}

// maxMarks is how many paths are told apart. Of more, any path of the owner counts as one of them where nothing is lost by that.
const maxMarks = 8

// markOf names a path of an owner in a mode.
func markOf(owner, path string, mode wire.Mode) uint64 {
	var b [64]byte
	name := append(b[:0], owner...)
	name = append(append(append(name, 0), path...), byte(mode))
	return max(xxh3.Hash(name), 1)
}

// marksOf is what the answer to a request is about; none for what is in no order.
func marksOf(req *wire.Request) (k marks) {
	n := 0
	switch req.Op {
	case wire.OpAcquire:
		n = len(req.Locks)
	case wire.OpRelease:
		if req.Token != 0 || req.Target != 0 {
			return k
		}
		n = len(req.Releases)
	}
	if n > maxMarks {
		return marks{one: markOf(req.Owner, "", 0), many: true}
	}
	for i := range n {
		var name uint64
		if req.Op == wire.OpAcquire {
			name = markOf(req.Owner, req.Locks[i].Path, req.Locks[i].Mode)
		} else {
			name = markOf(req.Owner, req.Releases[i].Path, req.Releases[i].Mode)
		}
		switch {
		case i == 0:
			k.one = name
		case i == 1:
			k.more = new([maxMarks - 1]uint64)
			fallthrough
		default:
			k.more[i-1] = name
		}
	}
	return k
}

// has says that a path is among them; sure that it is not only of an owner with many.
func (k *marks) has(owner, path string, mode wire.Mode, sure bool) bool {
	if k.one == 0 {
		return false
	}
	if k.many {
		return !sure && k.one == markOf(owner, "", 0)
	}
	name := markOf(owner, path, mode)
	return k.one == name || k.more != nil && slices.Contains(k.more[:], name)
}

// append appends them to a row.
func (k *marks) append(dst []byte) []byte {
	var all []uint64
	switch {
	case k.one == 0:
		return append(dst, 0)
	case k.many:
		dst = append(dst, maxMarks+1)
		return binary.BigEndian.AppendUint64(dst, k.one)
	case k.more != nil:
		all = k.more[:]
		if i := slices.Index(all, 0); i >= 0 {
			all = all[:i]
		}
	}
	dst = binary.BigEndian.AppendUint64(append(dst, byte(1+len(all))), k.one)
	for _, name := range all {
		dst = binary.BigEndian.AppendUint64(dst, name)
	}
	return dst
}

// marks reads what append appends.
func (r *entryReader) marks() (k marks) {
	n := int(r.byte())
	name := func() uint64 {
		if b := r.bytes(8); b != nil {
			return binary.BigEndian.Uint64(b)
		}
		return 0
	}
	switch {
	case n == 0:
		return k
	case n > maxMarks:
		return marks{one: name(), many: true}
	}
	if k.one = name(); n > 1 {
		k.more = new([maxMarks - 1]uint64)
		for i := range n - 1 {
			k.more[i] = name()
		}
	}
	return k
}

// later calls f for what the session asked after a request and was carried out, until it answers true.
func (s *session) later(id uint64, op wire.Op, f func(*marks) bool) bool {
	return id < s.highest && s.any(func(a *answered) bool {
		return a.id > id && a.op == op && a.code == wire.OK && a.status == wire.StatusOK && f(&a.marks)
	})
}

// owes says that something of a release that was carried out in parts is left to be done, and takes all else out of it: what no
// part in this log was about, and the session took in it before. As when a part was carried out, the acquire before it was not, and all
// its paths are in the namespace of that part when both are asked again.
func (s *session) owes(id uint64, req *wire.Request) bool {
	if req.Op != wire.OpRelease || req.Token != 0 || req.Target != 0 {
		return false
	}
	var left []wire.ReleaseRequest
	for _, r := range req.Releases {
		gave := func(a *answered) bool {
			return a.id == id && (a.marks.one == 0 || a.marks.has(req.Owner, r.Path, r.Mode, false))
		}
		took := func(a *answered) bool {
			return a.id < id && a.op == wire.OpAcquire && a.status == wire.StatusOK && a.marks.has(req.Owner, r.Path, r.Mode, true)
		}
		if s.any(took) && !s.any(gave) {
			left = append(left, r)
		}
	}
	if len(left) == 0 {
		return false
	}
	req.Releases = left
	return true
}

// any says that one of the answers is what f says.
func (s *session) any(f func(*answered) bool) bool {
	return slices.ContainsFunc(s.kept(), func(r request) bool {
		return f(&r.answered) || slices.ContainsFunc(r.more, func(a answered) bool { return f(&a) })
	})
}

// gaveBack says that a later release of the session was carried out that gives back what an acquire would take.
func (s *session) gaveBack(id uint64, req *wire.Request) bool {
	return s.later(id, wire.OpRelease, func(k *marks) bool {
		return slices.ContainsFunc(req.Locks, func(l wire.LockRequest) bool { return k.has(req.Owner, l.Path, l.Mode, false) })
	})
}

// tookAnew takes what later acquires of the session took out of what a release gives back.
func (s *session) tookAnew(id uint64, req *wire.Request) {
	if id >= s.highest || req.Token != 0 || req.Target != 0 {
		return
	}
	anew := func(r wire.ReleaseRequest) bool {
		return s.later(id, wire.OpAcquire, func(k *marks) bool { return k.has(req.Owner, r.Path, r.Mode, true) })
	}
	if slices.ContainsFunc(req.Releases, anew) {
		req.Releases = slices.DeleteFunc(slices.Clone(req.Releases), anew)
	}
}
