package groups

import (
	"errors"
	"strings"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/engine/naive"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// The naive model beside the simulation: whatever is done with the groups of the witness is done with a
// model of each, which must answer the same. The witness applies every entry of every log once, in
// order, unless it falls so far behind that it takes a snapshot: then there is no model any more.

// simModels is a model of each group of the witness.
type simModels struct {
	w  *world
	of map[*replica.Group]*naive.Model
}

// add begins with the groups of a log that is empty.
func (s *simModels) add(m *replica.Machine) {
	if s.w.hurried() { // what one step leaves over another meets in its middle, and so grants in another order
		return
	}
	for _, g := range m.Order {
		s.of[g] = naive.New(m.EngineConfig())
	}
}

// Did implements replica.Observer.
func (s *simModels) Did(g *replica.Group, c engine.Clock, cmd *engine.Command, how replica.Step, first *wire.Result,
	res wire.Result, said *engine.Output) {
	model := s.of[g]
	if model == nil || s.w.broken != "" {
		return
	}
	if cmd != nil { // the reader's own memory is used again
		body, nargs := wire.AppendArgs(nil, cmd.Req)
		c, req := *cmd, new(wire.Request)
		if err := wire.DecodeArgs(cmd.Req.Op, body, nargs, req); err != nil {
			s.w.fail("a command does not come back: %v", err)
			return
		}
		c.Req, c.NS = req, strings.Clone(cmd.NS)
		cmd = &c
	}
	model.SetLimits(g.M.Limits.Limits)
	at, ok := g.State.NextDeadline()
	// More is due than one step may end, or was, and the command met it: a model has no such bound.
	if ok && at <= c.Now || how != replica.StepExpire && model.Due(c.Now) {
		for _, other := range g.M.Order {
			delete(s.of, other)
		}
		return
	}
	s.w.count.modelled++
	var err error
	switch how {
	case replica.StepApply:
		err = model.Apply(c, cmd, res, said)
	case replica.StepWaits:
		err = model.Again(c, cmd, nil, res, said)
	case replica.StepRepeat:
		err = model.Again(c, cmd, first, res, said)
	case replica.StepExpire:
		err = model.Expire(c, said)
	}
	if err == nil {
		err = s.looks(model, g, cmd)
	}
	if err != nil {
		s.w.fail("log %d, entry %d, group %d: the naive model differs: %v", g.M.Shard, g.M.Applied+1, g.Number, err)
	}
}

// looks compares what reads of a group show: of the owner and the paths of the command in hand, and in
// turn of those that all clients use, to whom things happen with time and by what others ask.
func (s *simModels) looks(model *naive.Model, g *replica.Group, cmd *engine.Command) error {
	v, turn := g.State.View(), s.w.count.modelled
	if s.w.mixed() {
		ns, path := mixedAt(turn)
		err := errors.Join(model.SeesOwner(v, mixedOwner(turn), nil), model.SeesPath(v, ns, path),
			model.SeesPolicy(v, ns))
		if err != nil {
			return err
		}
	}
	if cmd == nil {
		return nil
	}
	var all []error
	for _, l := range cmd.Req.Locks {
		all = append(all, model.SeesPath(v, cmd.NS, l.Path))
	}
	for _, r := range cmd.Req.Releases {
		all = append(all, model.SeesPath(v, cmd.NS, r.Path))
	}
	if cmd.Req.Owner != "" {
		all = append(all, model.SeesOwner(v, cmd.Req.Owner, nil))
	}
	return errors.Join(all...)
}
