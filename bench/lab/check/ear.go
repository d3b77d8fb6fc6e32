package check

import (
	"github.com/pathlockd/pathlockd/bench/lab/history"
	"github.com/pathlockd/pathlockd/wire"
)

// checkEars holds that who waits hears of it (promise 6): a subscriber has heard, through
// whatever nodes, of each grant that answered an open call of its owner, or was told of a
// gap since the call. Between two gaps it hears of nothing twice.
func (c *checker) checkEars() {
	for i := range c.h.Ears {
		x := &c.h.Ears[i]
		at := make(map[wire.Position]bool)
		for _, h := range x.Heard {
			if h.Gap {
				clear(at) // it goes on from the node's cursor, which may be behind its own
				continue
			}
			if at[h.At] {
				c.violate(6, "%s: a subscriber heard twice of what stands at %v, the second time at %.3fs, and was "+
					"told of no gap", x.Owner, h.At, h.Time.Seconds())
			}
			if at[h.At] = true; h.Owner != x.Owner {
				c.violate(6, "%s: a subscriber heard of %s at %.3fs", x.Owner, h.Owner, h.Time.Seconds())
			}
		}
		cl := c.claims[x.Owner]
		if cl == nil || !x.Whole {
			continue
		}
		for _, op := range cl.ops {
			if tells(op) && op.Namespace == x.Namespace && op.Era == x.Era && op.Call >= x.From &&
				!x.Granted(op.Token) && !x.Missed(op.Call) {
				c.violate(6, "%s: a subscriber from %.3fs on never heard of a grant, nor of a gap: %s", x.Owner,
					x.From.Seconds(), Describe(op))
			}
		}
	}
}

// tells says that an operation was surely granted after it had waited, so that there is an
// event of it: it was asked once, told its place, and answered OK.
func tells(op *history.Op) bool {
	return op.Kind == history.Acquire && op.Open && op.Asks == 1 && op.Placed > 0 && op.OK()
}
