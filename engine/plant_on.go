//go:build plant

package engine

// Planted names the bug that this process has, "" for none. It is set before anything is
// begun.
var Planted string

// LoseWaiter forgets the first in the queue, without a word.
func (s *State) LoseWaiter() {
	var first uint64
	s.waiters.All().Ascend(func(key string, _ *waiter) bool { first = seqOf(key); return false })
	if first != 0 {
		s.removeWaiter(first, true)
	}
}
