//go:build !plant

package engine

// Planted names the bug that this build has: none.
const Planted = ""

// LoseWaiter is for a build with a planted bug alone.
func (s *State) LoseWaiter() {}
