// Package naive is a group once more, as contract.md tells it: lists instead of trees, every
// question answered by looking at all of them. Whatever package engine does is held against it:
// by drawn steps (the tests beside it), and in the simulation of a cluster (groups).
//
// naive.go says what there is and how a request is judged, queue.go who takes a place and who is
// granted, step.go what each operation does, move.go what a routing change does, read.go what reads
// answer, model.go how another package steps a Model beside a state, sees.go how reads
// of the two compare. A Model belongs to one goroutine.
package naive

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// New makes an empty group.
func New(cfg engine.Config) *Model { return &Model{cfg: cfg} }

// SetLimits has it go by other limits from now on, as engine.State.SetLimits.
func (m *Model) SetLimits(l engine.Limits) { m.cfg.Limits = l }

// Expire ends what ends with time, and compares that with what a state said when it did: out is
// what it said then and nothing else.
func (m *Model) Expire(c engine.Clock, out *engine.Output) error {
	m.begin(c, grants(out.Events))
	m.expire()
	return m.said(out)
}

// Apply carries a command out that the group had not seen, and compares the result with a state's and
// with what that said beside it.
func (m *Model) Apply(c engine.Clock, cmd *engine.Command, got wire.Result, out *engine.Output) error {
	return m.step(c, cmd, false, nil, got, out)
}

// Again is Apply for a command that its session asked before: it waits still (engine.State.Waiting), or
// first is what it was answered (engine.State.Repeat).
func (m *Model) Again(c engine.Clock, cmd *engine.Command, first *wire.Result, got wire.Result,
	out *engine.Output) error {
	return m.step(c, cmd, true, first, got, out)
}

func (m *Model) step(c engine.Clock, cmd *engine.Command, again bool, first *wire.Result, got wire.Result,
	out *engine.Output) error {
	m.begin(c, grants(out.Events))
	m.answered = got.Token
	want := m.apply(cmd, again, first)
	m.leaves(&want, cmd, &got)
	if err := same(got, want); err != nil {
		return fmt.Errorf("%v: %w", (*commandText)(cmd), err)
	}
	if err := m.said(out); err != nil {
		return fmt.Errorf("%v: %w", (*commandText)(cmd), err)
	}
	return nil
}

// leaves takes over what the contract leaves open: who of several is named.
func (m *Model) leaves(want *wire.Result, cmd *engine.Command, got *wire.Result) {
	if slices.Contains(m.paths, got.Path) {
		want.Path = got.Path
		if cmd.Req.Op == wire.OpFreeze {
			want.Owner = got.Owner
		}
	}
}

// same compares results, but for their messages.
func same(got, want wire.Result) error {
	if got.Message = ""; !reflect.DeepEqual(got, want) {
		return fmt.Errorf("result:\n got %s\nwant %s", (*resultText)(&got), (*resultText)(&want))
	}
	return nil
}

// said compares what a state said beside the result of a step: grants in their order, other events in
// any, and the answers of open calls.
func (m *Model) said(got *engine.Output) error {
	want := &engine.Output{Events: m.events, Answers: m.answers}
	isGrant := func(e engine.Event) bool { return e.Kind == wire.EventGrant }
	order := func(events []engine.Event) []engine.Event {
		granted := slices.DeleteFunc(slices.Clone(events), func(e engine.Event) bool { return !isGrant(e) })
		rest := slices.DeleteFunc(slices.Clone(events), isGrant)
		slices.SortFunc(rest, func(a, b engine.Event) int { return strings.Compare(eventText(a), eventText(b)) })
		return append(granted, rest...)
	}
	answers := func(all []engine.Answer) (map[engine.Caller]wire.Result, error) {
		byCaller := make(map[engine.Caller]wire.Result)
		for _, a := range all {
			if _, twice := byCaller[a.Caller]; twice {
				return nil, fmt.Errorf("call %d was answered twice", a.Caller.ID)
			}
			a.Result.Message = ""
			byCaller[a.Caller] = a.Result
		}
		return byCaller, nil
	}
	mine, err := answers(want.Answers)
	if err != nil {
		return fmt.Errorf("the model: %w", err)
	}
	theirs, err := answers(got.Answers)
	if err != nil {
		return err
	}
	if !slices.Equal(order(got.Events), order(want.Events)) ||
		!maps.EqualFunc(mine, theirs, func(a, b wire.Result) bool { return reflect.DeepEqual(a, b) }) {
		return fmt.Errorf("beside the result:\n got %s\nwant %s", (*outputText)(got), (*outputText)(want))
	}
	return nil
}

// grants are the tokens of the grants among events.
func grants(events []engine.Event) (tokens []int64) {
	for _, e := range events {
		if e.Kind == wire.EventGrant {
			tokens = append(tokens, e.Token)
		}
	}
	return tokens
}

// Texts are made only of what is printed: steps are logged, and rapid drops the
// log of a run that does not fail.
type (
	commandText engine.Command
	resultText  wire.Result
	outputText  engine.Output
)

func (c *commandText) String() string {
	r := c.Req
	s := fmt.Sprintf("%v %s ns=%s", r.Op, r.Owner+r.Namespace, c.NS)
	for _, l := range r.Locks {
		s += fmt.Sprintf(" %v:%v:%s", l.State, l.Mode, l.Path)
		if l.Permits > 0 {
			s += fmt.Sprintf(":%d", l.Permits)
		}
	}
	for _, l := range r.Releases {
		s += fmt.Sprintf(" -%v:%s", l.Mode, l.Path)
	}
	for _, f := range []struct {
		name  string
		value any
	}{
		{"domains", r.Domains}, {"token", r.Token}, {"ttl", r.TTLMillis}, {"queue_ttl", r.QueueTTLMillis},
		{"flags", uint64(r.Flags)},
		{"key", r.Key}, {"call", c.Caller.ID}, {"session", c.Caller.Session[0]}, {"epoch", c.Epoch}, {"bound", c.Bound},
		{"grace", c.Grace}, {"target", r.Target}, {"in", r.GraceMillis}, {"algorithm", r.Algorithm},
		{"chosen", r.Explicit},
	} {
		if v := reflect.ValueOf(f.value); !v.IsZero() {
			s += fmt.Sprintf(" %s=%v", f.name, f.value)
		}
	}
	return s
}

func (r *resultText) String() string {
	return fmt.Sprintf("%v %v %v path=%s owner=%s ns=%s token=%d current=%d position=%d flag=%v",
		r.Code, r.Status, r.Reason, r.Path, r.Owner, r.Namespace, r.Token, r.Current, r.Position, r.Flag)
}

func eventText(e engine.Event) string {
	return fmt.Sprintf("%v %s %s ns=%s token=%d", e.Kind, e.Owner, e.Path, e.Namespace, e.Token)
}

func (o *outputText) String() string {
	s := ""
	for _, e := range o.Events {
		s += "\n    " + eventText(e)
	}
	for i := range o.Answers {
		s += fmt.Sprintf("\n    answer to %d: %v", o.Answers[i].Caller.ID, (*resultText)(&o.Answers[i].Result))
	}
	return s
}
