package gossip

import (
	"sync/atomic"
	"testing"
)

// TestLost lets the fault laboratory take what two nodes say: they miss each other, and
// find each other again.
func TestLost(t *testing.T) {
	t.Parallel()
	var cut atomic.Bool
	lost := func(c *Config) { c.Lost = func(string, bool) bool { return cut.Load() } }
	a := start(t, 1, lost)
	b := start(t, 2, seeds(a), lost)
	allSee(t, a, b)
	cut.Store(true)
	eventually(t, "they miss each other", func() bool { return a.sees(a) && b.sees(b) })
	cut.Store(false)
	allSee(t, a, b)
}
