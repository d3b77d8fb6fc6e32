package engine

import (
	"strings"

	"github.com/pathlockd/pathlockd/trie"
)

// mint answers a token above every token the group has seen.
func (s *State) mint() int64 {
	s.counter++
	return s.counter
}

// raise makes the counter at least token.
func (s *State) raise(token int64) {
	if token > s.counter {
		s.counter = token
	}
}

// fence is the fence of a path: the highest token a write on it ever carried.
// ok is false when there never was one.
func (s *State) fence(key string) (token int64, ok bool) {
	if h := s.holds.Get(key); h != nil {
		token, ok = h.token, true
	} else {
		token, ok = s.fences.Fence(key)
	}
	return s.withFloor(key, token, ok)
}

// withFloor takes the floors into account under which the path was taken over.
func (s *State) withFloor(key string, token int64, ok bool) (int64, bool) {
	return floorOf(s.floors, key, token, ok)
}

func floorOf(floors []floor, key string, token int64, ok bool) (int64, bool) {
	for _, f := range floors {
		if f.Token > token && contains(f.Root, pathOf(key)) {
			token, ok = f.Token, true
		}
	}
	return token, ok
}

// contains says that a namespace root takes in a path: by whole segments, a bare
// handler all of it, "h:/" only itself.
func contains(root, path string) bool {
	if root == "" {
		return true // the merged floor of everything
	}
	if !strings.HasPrefix(path, root) {
		return false
	}
	rest := path[len(root):]
	return rest == "" || rest[0] == ':' && strings.IndexByte(root, ':') < 0 ||
		rest[0] == slash && strings.IndexByte(root, ':') >= 0
}

// refuses says that a caller's own token cannot be stored on a path (contract.md
// section 5, row 9): it is below the path's fence, or equal to it without the
// write. A token above the counter is above every fence, which needs no look.
func (s *State) refuses(key string, token int64, holds bool) (fence int64, stale bool) {
	if token > s.counter {
		return 0, false
	}
	fence, ok := s.fence(key)
	return fence, ok && (token < fence || token == fence && !holds)
}

// outdate notes that token went to a write on a path for which requests wait with
// tokens minted earlier: they are its owner's own, or it was exempt from waiting
// for them. Were they granted with those tokens, a resource that has seen the
// newer one would refuse them. So queued tokens of the namespace that are not above
// it are replaced at the grant (contract.md section 7).
func (s *State) outdate(ns, key string, token int64, recursive bool) {
	if !s.overtakes(key, token, recursive) {
		return
	}
	if m := s.marks.Get(ns); m == nil {
		*s.marks.Insert(s.w, owned(ns), trie.None, 0) = token
	} else if *m < token {
		*s.marks.Edit(s.w, ns) = token
	}
}

// overtakeLook is how many waiters are looked at, at most, before overtakes
// assumes the worst; only waiters without a minted token are passed over.
const overtakeLook = 16

// overtakes says that somebody waits for the path with a minted token that is not
// above token; it may be the same, if that is a caller's own. Minted tokens grow
// with the arrival numbers, so the first tells.
func (s *State) overtakes(key string, token int64, recursive bool) bool {
	for from, n := uint64(1), 0; n < overtakeLook; n++ {
		seq, _ := s.earliest(key, true, recursive, "", from, ^uint64(0))
		if seq == 0 {
			return false
		}
		w := s.waiter(seq)
		if w.token > 0 && !w.own {
			return w.token <= token
		}
		from = seq + 1
	}
	return true
}
