package engine

import "github.com/pathlockd/pathlockd/trie"

// How a state gets to disk.
//
// The replicated log is the write-ahead log, so nothing is written when a
// command is applied. Every leaf carries the modification mark of its last
// change; a checkpoint takes a view, raises the mark, and writes the rows that
// changed since the last one, while steps go on under the new mark. Once it is
// on disk, fences of paths that nobody holds may leave memory.

// Checkpoint answers a view whose Rows(Since()) bring the disk up to it.
// Only one may be in hand at a time; Written ends it.
func (s *State) Checkpoint() *View {
	if !s.dying.Empty() {
		panic("engine: a checkpoint began before the last one was written")
	}
	v := s.View()
	s.dying, s.tombs = s.tombs, trie.Tree[struct{}]{}
	s.w.SetMark(s.w.Mark() + 1)
	s.touched = false
	return v
}

// Mark is the modification mark of the view's youngest changes.
func (v *View) Mark() uint32 { return v.mark }

// Written says that all up to a mark is on disk.
func (s *State) Written(mark uint32) {
	s.dying = trie.Tree[struct{}]{}
	s.written = mark
}

// Since is the mark from which on the view's Rows lay it over the disk: what was on disk
// when the view was made is older. It is the view's and not the state's, since a view
// names the rows that were gone when it was made: one that came back before a checkpoint
// has an older mark than what comes after that, and to give Rows the state's mark would
// take it out and not put it back. (A raft snapshot of a quiet group lacked a lock so.)
func (v *View) Since() uint32 { return v.written + 1 }

// Touched says that a step was taken since the last checkpoint began.
func (s *State) Touched() bool { return s.touched }

// EvictFences drops fences from memory that are on disk, whose paths nobody
// holds or waits for. It looks at budget fences from where the last call stopped
// and says whether it came to the end.
func (s *State) EvictFences(budget int) (done bool) {
	var gone []string
	done = s.holds.AscendMarks(classGhost.Mask(), s.sweep, func(key string, mod uint32) bool {
		if budget--; budget < 0 {
			s.sweep = key
			return false
		}
		if mod <= s.written && (s.queue.Empty() || s.queue.Sub(s.suffixed(key, "\x00")).Empty()) {
			gone = append(gone, key)
		}
		return true
	})
	if done {
		s.sweep = ""
	}
	s.holds.RemoveAll(s.w, gone)
	return done
}
