package lab

import (
	"github.com/pathlockd/pathlockd/bench/lab/history"
	"github.com/pathlockd/pathlockd/wire"
)

// final says that a refusal speaks for all times that a request was asked, and not for the
// last alone.
func final(code wire.Code) bool { return code != wire.Unavailable && code != wire.ResourceExhausted }

// outcome takes an answer down.
func outcome(o *history.Op, res *wire.Result) {
	o.Code = res.Code
	switch res.Code {
	case wire.OK:
		o.Outcome = history.Answered
	case wire.Unavailable, wire.InvalidArgument, wire.ResourceExhausted, wire.FailedPrecondition, wire.Aborted,
		wire.Cancelled:
		o.Outcome = history.Refused
		return
	default:
		o.Outcome = history.Unknown
		return
	}
	o.Status, o.Reason, o.Blocker, o.At, o.Token = res.Status, res.Reason, res.Owner, res.Path, res.Token
	if o.Kind == history.Look && res.List != nil {
		for i := range res.List.Infos {
			h := &res.List.Infos[i]
			if h.Path == "" || h.Path == o.Paths[0] {
				o.Holders = append(o.Holders, history.Holder{Owner: h.Owner, Mode: h.Mode, Token: h.Fence})
			}
		}
		for i := range res.List.Waiters {
			o.Waiters = append(o.Waiters, res.List.Waiters[i].Owner)
		}
	}
}
