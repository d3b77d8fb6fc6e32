package groups

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// part is one command on its way through one log: a whole call, or what a call
// asks of one group.
type part struct {
	call *wire.Call // the call it is the whole of, else nil
	done func(*part, *wire.Result)
	log  *shardLog
	replica.Command
	waits   bool          // a QUEUED answer leaves the call open
	hasty   bool          // its caller is not to be kept waiting, for a leader neither
	open    bool          // it was QUEUED: a grant may answer it. Of the machine of its log alone
	in      string        // namespace that it waits in while it is open. Likewise
	since   time.Duration // when its call came, by the monotonic clock
	counted bool          // it is one of those under way in its group (admit)
	until   time.Duration // when a wait is over for its caller, though nobody was heard of; of this node's own
	asked   uint64        // numbers the open calls (openWaits)

	// What follows is of a part with an order in its session (line.go).
	line       *line // nil for one without
	ns         string
	owner      string       // of an acquire
	routes     *wire.Routes // that ns was resolved with
	came       uint64       // grows in the line
	need       uint64       // version of the routes that it waits for
	prev, next *part        // among those under way
	under      bool         // it is one of them

	// What follows is of a part on its way between nodes (forwarded.go, inbound.go).
	from   *inbound    // the connection it came on, nil for this node's own
	number uint64      // names it on the connection it came or went on
	term   uint64      // of the only leader epoch it may be proposed under, 0 of this node's own: any
	bytes  int         // what it counts for, of what its peer may have here
	tried  bool        // it may have been applied
	again  bool        // its client asked it before, or it may have been applied, as who sent it here says
	twice  bool        // it may have been applied, as who sent it here says
	asks   bool        // its client asked it before on the same connection, as who sent it here says
	placed bool        // its caller heard that it is queued, as who sent it here says
	told   atomic.Bool // its caller heard that it is queued
	gone   atomic.Bool // it waits, and the connection of its caller ended: nobody asks for it any more
	first  bool        // it is proposed before all others
}

// caller names the part's request.
func (p *part) caller() engine.Caller {
	return engine.Caller{Session: engine.Session(p.Session.ID), ID: p.ID}
}

// wait names the part's wait.
func (p *part) wait() wait { return wait{group: p.Group, session: p.Session, id: p.ID, asked: p.asked} }

// unheardWait is its wait, to be ended unless its client asks again, who is told that nobody knows what became of it,
// or that nobody took it now.
func (p *part) unheardWait() wait {
	w := p.wait()
	switch {
	case p.told.Load(): // it was told that its time is over
	case p.Bound:
		w.grace = p.Grace
	default:
		w.grace = uint64(reattachGrace.Milliseconds())
	}
	return w
}

// ofOneTerm says that the part may be proposed under the leader epoch of its term alone.
func (p *part) ofOneTerm() bool { return p.from != nil || p.term != 0 }

// repeats says that the part may have been asked before, by its client on the same connection
// or by a node.
func (p *part) repeats() bool {
	return p.tried || p.again || p.call != nil && p.call.Again
}

// attached says that the part is a wait whose caller heard that it is queued: it has a place, or had.
func (p *part) attached() bool { return p.waits && (p.placed || p.told.Load()) }

// insisted says that the part was asked before by its client on the same connection, whatever nodes did.
func (p *part) insisted() bool {
	return p.asks || p.from == nil && p.again || p.call != nil && p.call.Again
}

// attempts is what the log is told of earlier attempts of the part.
func (p *part) attempts() (before replica.Attempts) {
	switch {
	case p.attached():
		before = replica.HasPlace
	case p.tried, p.twice:
		before = replica.TriedByNode
	case p.repeats():
		before = replica.Attempted
	}
	if p.insisted() {
		before |= replica.Insisted
	}
	return before
}

// askedBefore says that the part, which is a call of this node's own, may have been asked before by its client.
func (p *part) askedBefore() bool { return p.call.Again || askedEarlier(p.call) }

// late says that the part's caller is not kept waiting for its answer any longer: of one
// that has its place in the queue, when that is over; of any other after a timeout.
func (p *part) late(now, timeout time.Duration) bool {
	if p.told.Load() {
		return p.until != 0 && now >= p.until
	}
	return now-p.since >= timeout
}

// staleBy is how long after its caller's time is over a client's command is stale: expire looks for it long before,
// unless the process stood still.
const staleBy = 10 * time.Second

// stale says that a client's command has lain here for longer than logs are sure to remember what became of its other
// copies (rememberMillis). What a node asks itself may be of any age.
func (p *part) stale(now, timeout time.Duration) bool {
	return p.Session != nil && !p.first && !p.told.Load() && now-p.since >= timeout+staleBy
}

// inFlight is a proposed batch whose fate is not known yet.
type inFlight struct {
	leaderEpoch replica.LeaderEpoch
	number      uint64
	parts       []*part // nil for those that were told that the outcome is not known

	untimed bool // no time goes on with it

	by *applier // who carries it out; set when its batch is applied
}

// Hears reports whether anybody is to be told what becomes of a command.
func (f *inFlight) Hears(i int) bool { return f.parts[i] != nil }

// Tell tells what became of it.
func (f *inFlight) Tell(i int, res *wire.Result) { f.by.node.deliver(f.parts[i], res, &f.by.answered) }

// forget lets go of the parts that are.
func (f *inFlight) forget(are func(*part) bool) (gone []*part) {
	for i, p := range f.parts {
		if p != nil && are(p) {
			gone = append(gone, p)
			f.parts[i] = nil
		}
	}
	return gone
}

// left is the parts that nobody was told about.
func (f *inFlight) left() []*part {
	return slices.DeleteFunc(slices.Clone(f.parts), func(p *part) bool { return p == nil })
}

// repliers is who is to be flushed after a burst of answers.
type repliers []flusher

type flusher interface{ Flush() }

func (r *repliers) add(to flusher) {
	for _, x := range *r {
		if x == to {
			return
		}
	}
	*r = append(*r, to)
}

func (r *repliers) flush() {
	for i, x := range *r {
		x.Flush()
		(*r)[i] = nil
	}
	*r = (*r)[:0]
}

// answer ends a part.
func (p *part) answer(res *wire.Result, to *repliers) {
	if p.from != nil {
		p.from.reply(p, res)
		to.add(p.from)
		return
	}
	if p.call == nil {
		p.done(p, res)
		return
	}
	c := p.call
	// the call is used again, and p with it: it must not keep what was read
	p.Body, p.Meta, p.ns, p.owner = nil, nil, "", ""
	c.Res = *res
	to.add(c.To)
	c.To.Reply(c)
}

// queued tells once that a part took its place in the queue; its call stays open.
func (p *part) queued(res *wire.Result, to *repliers) {
	if p.told.Load() {
		return
	}
	p.told.Store(true)
	if p.from != nil {
		p.from.queued(p, res)
		to.add(p.from)
		return
	}
	to.add(p.call.To)
	p.call.To.Queued(p.call, res)
}
