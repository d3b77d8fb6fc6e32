package engine

import (
	"slices"

	"github.com/pathlockd/pathlockd/wire"
)

// Folding of fences.
//
// Every path that was ever written to has a fence, and nobody says that a path will not be
// used again. So that they do not grow for ever, fences are folded: a floor takes the place
// of all of a scope that are not above it, whatever they were. A scope is a namespace, a
// handler, or the whole group.
//
// Which fences fold is not decided here: a fold is a command in the log, so that all
// replicas fold the same, with the reasons of whoever proposed it (groups/replica/fold.go). What
// makes that safe is that the fence of a path without a live hold is the higher one of its
// own and of the floors over it, and that floors only rise. So the row of a fence that is
// not above a floor says nothing any more, and each replica may delete it when it likes.

// fold makes a token the least fence of a scope's paths: of namespace cmd.NS, or if that is
// "" of the handler that the request names, or if it names none of the group.
func (s *State) fold(cmd *Command) (res wire.Result) {
	if cmd.Req.Token > s.counter {
		res.Fail(wire.Errorf(wire.InvalidArgument,
			"token %d: fences are folded up to the group's counter at most, which is %d", cmd.Req.Token, s.counter))
		return res
	}
	s.addFloor(cmd.Req.Namespace, cmd.NS, cmd.Req.Token)
	s.mergeFolds(func(f *floor) bool { return f.NS != "" && f.Root == f.NS }, wire.PathHandler)
	handler := func(f *floor) bool { return f.NS == "" && f.Root != "" && segments(f.Root) == 0 }
	s.mergeFolds(handler, func(string) string { return "" })
	return res
}

// mergeFolds replaces floors of a kind, if there are too many of them, by those of what
// they lie in. None of these lies below a path of its namespace (undercut).
func (s *State) mergeFolds(kind func(*floor) bool, in func(root string) string) {
	folds := make(map[string]int64)
	rest := make([]floor, 0, len(s.floors))
	count := 0
	for i := range s.floors {
		f := &s.floors[i]
		if !kind(f) {
			rest = append(rest, *f)
			continue
		}
		count++
		root := in(f.Root)
		folds[root] = max(folds[root], f.Token)
	}
	if count <= s.cfg.MaxFolds {
		return
	}
	roots := make([]string, 0, len(folds))
	for root := range folds {
		roots = append(roots, root)
	}
	slices.Sort(roots)
	s.floors = rest
	for _, root := range roots {
		s.addFloor(root, "", folds[root])
	}
}

// Floors are the floors of a state at one instant.
type Floors []floor

// Floors answers those of the view.
func (v *View) Floors() Floors { return v.floors }

// Floors answers the state's own.
func (s *State) Floors() Floors { return s.floors }

// Equal says that two states have the same.
func (f Floors) Equal(o Floors) bool { return slices.Equal(f, o) }

// Fold says that the row of a fence is not above a floor of its path, so that it may be
// deleted where these floors are on disk.
func (f Floors) Fold(row []byte, token int64) bool {
	floor, _ := floorOf(f, view(row[1:]), 0, false)
	return token <= floor
}

// minuteMillis is how exactly a fence's row says when its path was let go.
const minuteMillis = 60_000

// Fence is what the row of a fence says.
type Fence struct {
	Token int64
	Freed int64 // ms of the lease clock: the path was let go before
	Own   bool  // a caller brought the token
}

// ParseFence reads the value of a fence's row.
func ParseFence(val []byte) (f Fence, err error) {
	r := wire.NewReader(val)
	for i := range r.Array() {
		switch i {
		case 0:
			f.Token = r.Int()
		case 1:
			f.Freed = (r.Int() + 1) * minuteMillis
		case 2:
			f.Own = r.Bool()
		default:
			r.Skip()
		}
	}
	return f, r.Err()
}

// fenceRow appends the row of a fence.
func (h *hold) fenceRow(dst []byte) []byte {
	dst = wire.AppendInt(wire.AppendArray(dst, 3), h.token)
	dst = wire.AppendInt(dst, h.since/minuteMillis)
	return wire.AppendBool(dst, h.own)
}

// FenceNamespace is the namespace of the path whose fence a row is. It shares the row's
// memory.
func FenceNamespace(row []byte) string { return namespaceOf(view(row[1:])) }

// OwnTokens calls f with the namespace and the token of each write that is held, or waited
// for, with a token that its caller brought.
func (v *View) OwnTokens(f func(ns string, token int64)) {
	v.holds.All().AscendClass(classWrite.Mask(), func(key string, h *hold) bool {
		if h.own {
			f(namespaceOf(key), h.token)
		}
		return true
	})
	v.waiters.All().Ascend(func(_ string, w *waiter) bool {
		if w.own {
			f(w.ns, w.token)
		}
		return true
	})
}
