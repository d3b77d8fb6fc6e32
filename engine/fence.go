package engine

import (
	"strings"

	"github.com/pathlockd/pathlockd/trie"
	"github.com/pathlockd/pathlockd/wire"
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
	return floorOf(s.floors, key, token, ok)
}

// floorOf takes the floors into account under which the path was taken over. They
// are not for a path with a live hold: it has been given out since, above them, or
// it is of a namespace of its own that was not taken over with what lies around it.
func floorOf(floors []floor, key string, token int64, ok bool) (int64, bool) {
	for i := range floors {
		if f := &floors[i]; f.Token > token && f.of(namespaceOf(key)) && contains(f.Root, pathOf(key)) {
			token, ok = f.Token, true
		}
	}
	return token, ok
}

// of says that the floor's paths may be in a namespace.
func (f *floor) of(ns string) bool { return f.NS == "" || f.NS == ns }

// undercut says that a token is not above the floor of a subtree that lies below one
// of the writes of a: it was queued when the subtree was no part of the namespace.
func (s *State) undercut(a *asking, minted int64) bool {
	for i := range s.floors {
		f := &s.floors[i]
		if f.Token < minted || !f.of(a.ns) {
			continue
		}
		for j := range a.wants {
			if w := &a.wants[j]; w.mode == wire.ModeWrite && w.state == wire.StateNew &&
				liesAbove(pathOf(w.key), rootPath(f.Root)) {
				return true
			}
		}
	}
	return false
}

// contains says that a namespace root takes in a path: by whole segments, a handler
// ("h", or "h:/") all of it.
func contains(root, path string) bool {
	if root == "" {
		return true // the merged floor of everything
	}
	if !strings.HasPrefix(path, root) {
		return false
	}
	rest := path[len(root):]
	switch {
	case rest == "":
		return true
	case strings.IndexByte(root, ':') < 0:
		return rest[0] == ':'
	}
	return rest[0] == slash || root[len(root)-1] == slash
}

// refuses says that a caller's own token cannot be stored on a path (contract.md
// section 5, row 9): it is below the path's fence, or equal to it without the
// write. A token above the counter is above every fence, which needs no look.
func (s *State) refuses(key string, token int64, holds bool) (fence int64, stale bool) {
	switch {
	case token > s.counter:
		return 0, false
	case holds:
		fence = s.holds.Get(key).token
		return fence, token < fence
	}
	fence, ok := s.fence(key)
	return fence, ok && token <= fence
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

// overtakes says that somebody waits for the path with a minted token that is not
// above token; it may be the same, if that is a caller's own. Minted tokens grow
// with the arrival numbers, so the first tells.
func (s *State) overtakes(key string, token int64, recursive bool) bool {
	for from, n := uint64(1), 0; n < s.cfg.OvertakeLook; n++ {
		seq, _ := s.earliest(key, true, recursive, nil, from, ^uint64(0))
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
