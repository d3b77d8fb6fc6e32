package check

import (
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/history"
	"github.com/pathlockd/pathlockd/wire"
)

// span is a time in which an owner surely held its paths, or surely had a place in the
// queue or held them.
type span struct {
	*claim
	from, to time.Duration
	asked    time.Duration // when it was asked for: it may have begun then, and not be told yet
	token    int64         // of a hold
}

// spans follows an owner's life. Along the way it finds leases that ended early: answers
// that say so of a hold that surely lasted (promise 5).
func (c *checker) spans(cl *claim) (holds, places []span) {
	var hold, place *span
	shut := func(s **span, list *[]span, at time.Duration) {
		if *s == nil || at == never {
			return
		}
		if (*s).to = min((*s).to, at, cl.cut); (*s).from < (*s).to {
			*list = append(*list, **s)
		}
		*s = nil
	}
	for _, op := range cl.ops {
		if op.Outcome == history.Refused {
			continue
		}
		for _, s := range []struct {
			of   **span
			list *[]span
		}{{&hold, &holds}, {&place, &places}} {
			if *s.of != nil {
				at := c.disturbed(cl, (*s.of).asked, op.Return)
				if at != never && op.Kind == history.Release {
					at = min(at, op.Call) // which may have been carried out before
				}
				shut(s.of, s.list, at)
			}
		}
		switch op.Kind {
		case history.Release:
			shut(&hold, &holds, op.Call)
			shut(&place, &places, op.Call)
			continue
		case history.Clear: // disturbed
			continue
		case history.Acquire, history.Renew, history.Assert, history.Look, history.SetPolicy, history.Restored:
		}
		if op.Outcome == history.Unknown {
			continue // what it may do to what is sure, cut says
		}
		switch {
		case op.OK() && op.Kind == history.Acquire:
			end := c.sure(op.Call, op.TTL)
			if hold == nil || hold.to <= op.Call {
				shut(&hold, &holds, history.Forever)
				hold = &span{claim: cl, from: op.Return, asked: op.Call, token: op.Token}
			}
			hold.to = max(hold.to, end)
			if op.Open && op.Placed > 0 {
				// It may have been granted long before the answer came, and its lease be over.
				places = append(places, span{claim: cl, from: op.Placed, asked: op.Call,
					to: min(op.Return, c.sure(op.Call, min(op.TTL, op.QueueTTL)))})
			}
		case op.OK() && op.Kind == history.Renew:
			if hold == nil {
				hold = &span{claim: cl, from: op.Return, asked: op.Call}
			}
			hold.to = c.sure(op.Call, op.TTL)
		case op.OK():
		default:
			if hold != nil && min(hold.to, cl.cut) > op.Return &&
				(op.Kind != history.Assert || op.Asked == hold.token) {
				c.violate(5, "%s: the lease lasts until %.3fs at least, and it is told that it is over: %s", cl.owner,
					hold.to.Seconds(), Describe(op))
			}
			shut(&hold, &holds, op.Call)
		}
		if op.Queued() {
			end := c.sure(op.Call, min(op.TTL, op.QueueTTL))
			switch {
			case place == nil || place.to <= op.Return:
				shut(&place, &places, history.Forever)
				place = &span{claim: cl, from: op.Return, asked: op.Call, token: op.Token}
			case place.token == 0 && op.Era > cl.Era: // it came of a backup, with another token
				place.token = op.Token
			case place.token != op.Token && cl.cut > op.Return:
				c.violate(6, "%s: had a place in the queue with token %d until %.3fs at least, and has one with "+
					"token %d: %s",
					cl.owner, place.token, place.to.Seconds(), op.Token, Describe(op))
				place.token = op.Token
			}
			place.to = max(place.to, end)
		}
	}
	shut(&hold, &holds, history.Forever)
	shut(&place, &places, history.Forever)
	return holds, places
}

// never is no time.
const never = -1

// disturbed is when somebody else, or a change of the rules, may have ended what an owner
// asked for at a time, by another: the earliest of them, or never.
func (c *checker) disturbed(cl *claim, asked, by time.Duration) time.Duration {
	at := time.Duration(never)
	look := func(op *history.Op) {
		if op.Outcome != history.Refused && op.Return > asked && op.Call < by && (at == never || op.Call < at) {
			at = op.Call
		}
	}
	for _, op := range c.policies[cl.namespace] {
		look(op)
	}
	for _, op := range cl.clears {
		look(op)
	}
	return at
}

// sureSpans is spans of every owner. What a change of rules may have ended is ended by
// it, also after the owner's last word.
func (c *checker) sureSpans() (holds, places []span) {
	for _, owner := range sortedKeys(c.claims) {
		cl := c.claims[owner]
		h, p := c.spans(cl)
		for _, list := range []*[]span{&h, &p} {
			for i := range *list {
				s := &(*list)[i]
				if at := c.disturbed(cl, s.asked, s.to); at != never {
					s.to = at
				}
			}
			*list = slices.DeleteFunc(*list, func(s span) bool { return s.to <= s.from })
		}
		holds, places = append(holds, h...), append(places, p...)
	}
	return holds, places
}

// weakest is the rules that a namespace has at all times.
func (c *checker) weakest(namespace string) wire.Algorithm {
	if len(c.policies[namespace]) > 0 {
		return wire.PointRW
	}
	return wire.RecursiveRW
}
