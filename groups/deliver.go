package groups

import (
	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// deliver tells who asked for a part what became of it, here or at the node that it was
// forwarded to.
func (n *Node) deliver(p *part, res *wire.Result, to *repliers) {
	if p.line != nil && p.line.keeps(n, p, res) {
		return // until the move that it met is over
	}
	n.finish(p)
	waits := res.Code == wire.OK && res.Status == wire.StatusQueued
	if waits && (p.Op == wire.OpSetPolicy || p.Op == wire.OpDeletePolicy) {
		n.changes.add(res.Count, p)
		n.moves.rouse() // so that somebody looks at its time
		return
	}
	if p.waits {
		if waits {
			if instead, ok := n.waits.opens(p, res, to); !ok {
				if p.from == nil { // else it was answered when it was replaced (attach)
					p.answer(instead, to)
				}
				return
			}
			if p.from != nil && p.from.closed.Load() && n.waits.take(p.caller(), p) {
				n.leftAlone(p)
			}
			return
		}
		n.waits.take(p.caller(), p)
	}
	p.answer(res, to)
}

// applier is a log as one replica of it knows it (replica.Proposer). Each replica has its own: one that is being
// stopped may apply yet.
type applier struct {
	*shardLog
	answered repliers // who is to be flushed after the entries in hand; of the replica's Update alone
}

// Incarnation implements replica.Proposer.
func (l *shardLog) Incarnation() uint64 { return l.process }

// WaitOver answers a call that waited, if it is attached here.
func (a *applier) WaitOver(over *engine.Answer) {
	if p := a.node.waits.answers(a.shardLog, over); p != nil {
		p.answer(&over.Result, &a.answered)
	}
}

// ChangeOver answers the calls that wait for a policy change.
func (a *applier) ChangeOver(d *engine.Done) {
	for _, p := range a.node.changes.take(d.ID) {
		p.answer(&d.Result, &a.answered)
	}
}

// Flush sends the answers to what was applied.
func (a *applier) Flush() { a.answered.flush() }

// finish counts a part out of those under way in its group, and in its session.
func (n *Node) finish(p *part) {
	if p.line != nil {
		p.line.leave(n, p)
	}
	if p.counted {
		p.counted = false
		n.countOut(p.Group)
	}
}

// settle answers parts that are not to be applied, or of which it is not known.
func (n *Node) settle(parts []*part, res *wire.Result) {
	var to repliers
	for _, p := range parts {
		if p.from != nil && res.Code == wire.Unavailable {
			n.bounce([]*part{p}) // its peer may find somebody
			continue
		}
		n.finish(p)
		if p.waits {
			n.waits.take(p.caller(), p)
		}
		p.answer(res, &to)
	}
	to.flush()
}
