package engine

import (
	"math"

	"github.com/pathlockd/pathlockd/wire"
)

// Command is one step to take. Everything in it may alias a buffer that is
// reused after Apply: what the state keeps, it copies.
type Command struct {
	Req     *wire.Request // decoded and validated
	NS      string        // namespace of the paths, for operations on one
	Version uint64        // version of the routes it was resolved with
	Short   bool          // by these its first path has too few segments, and is in no namespace that somebody chose
	Caller  Caller        // who asked, zero when nobody did
	Epoch   uint64        // connection of the session
	Bound   bool          // the lease follows the connection,
	Grace   int64         // with this many ms of grace
	Meta    []byte        // holder metadata

	// Asked is what its session asked to give back, where Req leaves out what it took later; else nil.
	Asked []wire.ReleaseRequest
}

// hash tells what was asked apart.
func (c *Command) hash() uint64 {
	if c.Asked == nil {
		return hashOf(c.Req)
	}
	req := *c.Req
	req.Releases = c.Asked
	return hashOf(&req)
}

// Moved is the Result.Position of an UNAVAILABLE result that says: resolve the
// paths anew, with routes of at least the version in Result.Count, and ask again.
const Moved = 1

// Superseded is the Result.Position of an UNAVAILABLE result that says: a later attempt of the claimed request has
// asked for this part.
const Superseded = 2

// Clock is the instant of a step.
type Clock struct {
	Now  int64 // ms of the lease clock; never less than before
	Wall int64 // Unix ms, for people
}

// begin starts a step.
func (s *State) begin(c Clock, out *Output) {
	s.now, s.wall, s.out, s.touched = max(s.now, c.Now), c.Wall, out, true
	s.early, s.looked = 0, 0 // only what is in the state and in the step in hand decides
}

// Apply carries one command out and answers its result.
//
// The caller has let Expire run for the same instant. A result QUEUED for a
// command with FlagWait means that the call stays open: it ends with an Answer,
// now or in a later step.
func (s *State) Apply(c Clock, cmd *Command, out *Output) wire.Result {
	s.begin(c, out)
	res := s.dispatch(cmd)
	s.settle()
	return res
}

// Expire ends what ends with time, at most Config.ReapBudget things of it, and
// says whether more is due: then it should be called again soon. What is due and
// not yet ended blocks nobody in the meantime, unless very much of it is in one's way (maxEarly).
func (s *State) Expire(c Clock, out *Output) (more bool) {
	s.ExpireSome(c, out, s.cfg.ReapBudget)
	at, ok := s.NextDeadline()
	return ok && at <= s.now
}

// ExpireSome is Expire for about so many things, and answers how many they were. Departures take turns with
// deadlines: the end of a lease is not to wait for a client that goes with very many others.
func (s *State) ExpireSome(c Clock, out *Output, budget int) (cost int) {
	if Planted == PlantInOneStep {
		budget = math.MaxInt
	}
	s.begin(c, out)
	if !s.departing.Empty() {
		cost = s.ringDue(budget / 2)
	}
	for cost < budget && !s.departing.Empty() {
		first, _, _, _ := s.departing.All().ByRank(1).Next()
		cost += s.depart(first, budget-cost)
	}
	cost += s.ringDue(budget - cost)
	s.settle()
	return cost
}

// ringDue ends what is due, and answers what that cost.
func (s *State) ringDue(budget int) (cost int) {
	for cost < budget {
		t := s.deadlines.pop(s.now)
		if t == nil {
			break
		}
		cost += s.ring(t, budget-cost)
	}
	return cost
}

// ring ends what t stands for and answers what that cost.
func (s *State) ring(t *timer, budget int) int {
	switch t.kind {
	case timeLease:
		return s.leaseOver(t.key, budget)
	case timeWaiter:
		s.waiterOver(seqOf(t.key))
	case timeEdge:
		s.clearEdge(t.key)
	case timeKept:
		s.forget(t.key)
	}
	return 1
}

func (s *State) dispatch(cmd *Command) wire.Result {
	if res, moved := s.moved(cmd); moved {
		return res
	}
	res := s.once(cmd)
	if held, moved := s.lostInMove(cmd, &res); moved {
		return held
	}
	return res
}

// once carries a command out unless a kept answer stands for it.
func (s *State) once(cmd *Command) wire.Result {
	if cmd.Req.Op == wire.OpClaim {
		return s.claimKey(cmd)
	}
	if cmd.Req.Key != "" {
		return s.keyed(cmd)
	}
	return s.execute(cmd)
}

// execute carries a command out that no kept answer stands for.
func (s *State) execute(cmd *Command) wire.Result {
	req := cmd.Req
	switch req.Op {
	case wire.OpAcquire:
		return s.acquire(cmd)
	case wire.OpRelease:
		return s.release(cmd)
	case wire.OpReleaseAll:
		return s.releaseAll(cmd)
	case wire.OpRenew, wire.OpBind:
		return s.renew(cmd)
	case wire.OpForceRelease:
		return s.forceRelease(cmd)
	case wire.OpRequestRevoke:
		return s.revoke(cmd)
	case wire.OpSetWaitEdge:
		return s.setEdge(cmd)
	case wire.OpClearWaitEdge:
		return s.clearEdge(req.Owner)
	case wire.OpUnbind:
		return s.unbind(cmd)
	case wire.OpCancelWait:
		return s.cancelWait(cmd)
	case wire.OpDetach:
		return s.detach(cmd)
	case wire.OpSetRow, wire.OpFreeze, wire.OpThaw, wire.OpOpen, wire.OpLeave:
		return s.policyStep(cmd)
	case wire.OpFold:
		return s.fold(cmd)
	case wire.OpRevokeNotice:
		s.event(wire.EventRevoke, owned(req.Owner), "", "", 0)
		return wire.Result{}
	case wire.OpKillNotice:
		s.clearEdge(req.Owner)
		s.event(wire.EventKilled, owned(req.Owner), "", "", 0)
		return wire.Result{}
	}
	var res wire.Result
	res.Fail(wire.Errorf(wire.Internal, "engine: operation %v cannot stand in a log", req.Op))
	return res
}
