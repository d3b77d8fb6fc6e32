package groups

import (
	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// group is one virtual group hosted by a log.
type group struct {
	number uint16
	m      *machine
	state  *engine.State
	due    int64 // its next deadline, 0: none
	steps  uint64
	view   *engine.View // of step viewed
	viewed uint64
	swept  swept
}

// presence is where in the log an owner has an ownership record.
type presence struct {
	groups []*group
	counts []int
}

// OwnerCame implements engine.OwnerWatch.
func (g *group) OwnerCame(owner string) {
	p := g.m.owners[owner]
	if p == nil {
		p = new(presence)
		g.m.owners[owner] = p
	}
	for i := range p.groups {
		if p.groups[i] == g {
			p.counts[i]++
			return
		}
	}
	p.groups, p.counts = append(p.groups, g), append(p.counts, 1)
}

// OwnerWent implements engine.OwnerWatch.
func (g *group) OwnerWent(owner string) {
	p := g.m.owners[owner]
	for i := range p.groups {
		if p.groups[i] != g {
			continue
		}
		if p.counts[i]--; p.counts[i] == 0 {
			last := len(p.groups) - 1
			p.groups[i], p.counts[i] = p.groups[last], p.counts[last]
			p.groups[last] = nil
			p.groups, p.counts = p.groups[:last], p.counts[:last]
		}
		break
	}
	if len(p.groups) == 0 {
		delete(g.m.owners, owner)
	}
}

// beside is told of all that is done with a group's state, where tests want it: nil in a real node.
type beside interface {
	// did says that a step was taken, and what was said of it: first is what a repeat was answered
	// before, cmd nil when things ended with time.
	did(g *group, c engine.Clock, cmd *engine.Command, how step, first *wire.Result, res wire.Result, said *engine.Output)
}

// step is what is done with a command.
type step uint8

const (
	stepApply  step = iota // it is carried out
	stepWaits              // what it asked before waits still
	stepRepeat             // it was answered before
	stepExpire             // there is none
)

// said is how much a group's log has said in the entry in hand.
type said struct{ events, answers int }

func (g *group) said() said { return said{len(g.m.out.Events), len(g.m.out.Answers)} }

// since is what was said after that.
func (g *group) since(s said) *engine.Output {
	return &engine.Output{Events: g.m.out.Events[s.events:], Answers: g.m.out.Answers[s.answers:]}
}

// apply carries a command out.
func (g *group) apply(c engine.Clock, cmd *engine.Command) wire.Result {
	since := g.said()
	res := g.state.Apply(c, cmd, &g.m.out)
	if b := g.m.beside; b != nil {
		b.did(g, c, cmd, stepApply, nil, res, g.since(since))
	}
	return res
}

// waiting answers a command whose first asking waits still, ok false if it does not.
func (g *group) waiting(c engine.Clock, cmd *engine.Command) (res wire.Result, ok bool) {
	since := g.said()
	if res, ok = g.state.Waiting(c, cmd, &g.m.out); ok && g.m.beside != nil {
		g.m.beside.did(g, c, cmd, stepWaits, nil, res, g.since(since))
	}
	return res, ok
}

// repeat answers a command that was answered before.
func (g *group) repeat(c engine.Clock, cmd *engine.Command, first *wire.Result) wire.Result {
	since := g.said()
	res := g.state.Repeat(c, cmd, first, &g.m.out)
	if b := g.m.beside; b != nil {
		b.did(g, c, cmd, stepRepeat, first, res, g.since(since))
	}
	return res
}

// expire ends about so many things with time, and answers how many.
func (g *group) expire(c engine.Clock, budget int) int {
	since := g.said()
	cost := g.state.ExpireSome(c, &g.m.out, budget)
	if b := g.m.beside; b != nil {
		b.did(g, c, nil, stepExpire, nil, wire.Result{}, g.since(since))
	}
	return cost
}

// stepped takes note of a step of the group.
func (g *group) stepped() {
	g.steps++
	g.due, _ = g.state.NextDeadline()
}

// current is a view of the group as it is. While nothing changes it, readers share
// one.
func (g *group) current() *engine.View {
	if g.view == nil || g.viewed != g.steps {
		g.view, g.viewed = g.state.View(), g.steps
	}
	return g.view
}

// view is one of a group by number; an empty one of a group that lives in another log.
func (m *machine) view(number uint16) *engine.View {
	m.mu.Lock()
	defer m.mu.Unlock()
	if g := m.groups[number]; g != nil {
		return g.current()
	}
	return engine.New(m.engineConfig(), nil, nil).View()
}

// find answers the groups of the log in which an owner has an ownership record, and up to where the log is applied.
func (m *machine) find(owner string) (numbers []uint16, applied uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.owners[owner]; p != nil {
		for _, g := range p.groups {
			numbers = append(numbers, g.number)
		}
	}
	return numbers, m.applied
}

// has says that the replica has applied so much of its log, and is not being replaced.
func (m *machine) has(index int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.applied >= uint64(index) && !m.installing.Load()
}
