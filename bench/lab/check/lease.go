package check

import (
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/history"
	"github.com/pathlockd/pathlockd/wire"
)

// sign says that an owner held its paths at some time after from.
type sign struct {
	from, to time.Duration
	op       *history.Op
}

// checkLeases holds that no lease outlives its time by more than a tick, and the time
// without a leader (promise 5). That none ends early follows from spans.
func (c *checker) checkLeases() {
	signs := make(map[string][]sign)
	add := func(owner string, op *history.Op) { signs[owner] = append(signs[owner], sign{op.Call, op.Return, op}) }
	for _, ops := range c.spaces {
		for _, op := range ops {
			if op.Outcome != history.Answered {
				continue
			}
			switch op.Kind {
			case history.Acquire:
				if (op.Status == wire.StatusQueued || op.Status == wire.StatusConflict) &&
					op.Reason != wire.ReasonQueued && op.Blocker != "" {
					add(op.Blocker, op)
				}
			case history.Renew, history.Assert:
				if op.OK() {
					add(op.Owner, op)
				}
			case history.Look:
				for i := range op.Holders {
					add(op.Holders[i].Owner, op)
				}
			case history.Release, history.Clear, history.SetPolicy, history.Restored:
			}
		}
	}
	for _, owner := range sortedKeys(signs) {
		cl := c.claims[owner]
		if cl == nil {
			c.violate(1, "%s holds something and never asked: %s", owner, Describe(signs[owner][0].op))
			continue
		}
		list := signs[owner]
		slices.SortStableFunc(list, func(a, b sign) int { return int(min(max(a.from-b.from, -1), 1)) })
		for _, s := range list {
			if end := c.lastDay(cl, s.to, s.op); end < s.from {
				c.violate(5, "%s: its lease was over by %.3fs at the latest, and it holds its paths: %s", owner,
					end.Seconds(), Describe(s.op))
				break
			}
		}
	}
}

// lastDay is when a lease surely is over, by what its owner had asked by a time, but for
// what it is judged by.
func (c *checker) lastDay(cl *claim, by time.Duration, but *history.Op) (end time.Duration) {
	for _, op := range cl.ops {
		if op == but || op.Call > by || op.Outcome == history.Refused {
			continue
		}
		switch {
		case op.Kind == history.Acquire && (op.Outcome == history.Unknown || op.OKThenLost()),
			op.Kind == history.Renew && op.Outcome == history.Unknown:
			return history.Forever
		case op.Kind == history.Acquire && op.OK(), op.Kind == history.Renew && op.OK():
			end = max(end, c.over(op.Return, op.TTL))
		case op.Queued():
			end = max(end, c.over(c.over(op.Return, op.QueueTTL), op.TTL))
		}
	}
	return end
}
