package replica

import (
	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// Group is one virtual group hosted by a log.
type Group struct {
	Number uint16
	M      *Machine
	State  *engine.State
	Due    int64 // its next deadline, 0: none
	steps  uint64
	view   *engine.View // of step viewed
	viewed uint64
	swept  swept
}

// presence is where in the log an owner has an ownership record.
type presence struct {
	groups []*Group
	counts []int
}

// OwnerCame implements engine.OwnerWatch.
func (g *Group) OwnerCame(owner string) {
	p := g.M.owners[owner]
	if p == nil {
		p = new(presence)
		g.M.owners[owner] = p
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
func (g *Group) OwnerWent(owner string) {
	p := g.M.owners[owner]
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
		delete(g.M.owners, owner)
	}
}

// Observer is told of all that is done with a group's state, where tests want it: nil in a real node.
type Observer interface {
	// Did says that a step was taken, and what was said of it: first is what a repeat was answered
	// before, cmd nil when things ended with time.
	Did(g *Group, c engine.Clock, cmd *engine.Command, how Step, first *wire.Result, res wire.Result,
		said *engine.Output)
}

// Step is what is done with a command.
type Step uint8

const (
	StepApply  Step = iota // it is carried out
	StepWaits              // what it asked before waits still
	StepRepeat             // it was answered before
	StepExpire             // there is none
)

// said is how much a group's log has said in the entry in hand.
type said struct{ events, answers int }

func (g *Group) said() said { return said{len(g.M.Out.Events), len(g.M.Out.Answers)} }

// since is what was said after that.
func (g *Group) since(s said) *engine.Output {
	return &engine.Output{Events: g.M.Out.Events[s.events:], Answers: g.M.Out.Answers[s.answers:]}
}

// apply carries a command out.
func (g *Group) apply(c engine.Clock, cmd *engine.Command) wire.Result {
	since := g.said()
	res := g.State.Apply(c, cmd, &g.M.Out)
	if b := g.M.Observer; b != nil {
		b.Did(g, c, cmd, StepApply, nil, res, g.since(since))
	}
	return res
}

// waiting answers a command whose first asking waits still, ok false if it does not.
func (g *Group) waiting(c engine.Clock, cmd *engine.Command) (res wire.Result, ok bool) {
	since := g.said()
	if res, ok = g.State.Waiting(c, cmd, &g.M.Out); ok && g.M.Observer != nil {
		g.M.Observer.Did(g, c, cmd, StepWaits, nil, res, g.since(since))
	}
	return res, ok
}

// repeat answers a command that was answered before.
func (g *Group) repeat(c engine.Clock, cmd *engine.Command, first *wire.Result) wire.Result {
	since := g.said()
	res := g.State.Repeat(c, cmd, first, &g.M.Out)
	if b := g.M.Observer; b != nil {
		b.Did(g, c, cmd, StepRepeat, first, res, g.since(since))
	}
	return res
}

// expire ends about so many things with time, and answers how many.
func (g *Group) expire(c engine.Clock, budget int) int {
	since := g.said()
	cost := g.State.ExpireSome(c, &g.M.Out, budget)
	if b := g.M.Observer; b != nil {
		b.Did(g, c, nil, StepExpire, nil, wire.Result{}, g.since(since))
	}
	return cost
}

// Stepped takes note of a step of the group.
func (g *Group) Stepped() {
	g.steps++
	g.Due, _ = g.State.NextDeadline()
}

// current is a view of the group as it is. While nothing changes it, readers share
// one.
func (g *Group) current() *engine.View {
	if g.view == nil || g.viewed != g.steps {
		g.view, g.viewed = g.State.View(), g.steps
	}
	return g.view
}

// View is one of a group by number; an empty one of a group that lives in another log.
func (m *Machine) View(number uint16) *engine.View {
	m.mu.Lock()
	defer m.mu.Unlock()
	if g := m.Groups[number]; g != nil {
		return g.current()
	}
	return engine.New(m.EngineConfig(), nil, nil).View()
}

// Find answers the groups of the log in which an owner has an ownership record, and up to where the log is applied.
func (m *Machine) Find(owner string) (numbers []uint16, applied uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.owners[owner]; p != nil {
		for _, g := range p.groups {
			numbers = append(numbers, g.Number)
		}
	}
	return numbers, m.Applied
}

// Has says that the replica has applied so much of its log, and is not being replaced.
func (m *Machine) Has(index int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Applied >= uint64(index) && !m.Installing.Load()
}

// Counts is how many locks are held in the log, and how many paths are waited for.
func (m *Machine) Counts() (locks, waiting int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.Order {
		l, w := g.State.Counts()
		locks, waiting = locks+l, waiting+w
	}
	return locks, waiting
}

// Adrift says that the connection that a wait came on is known to have ended.
func (m *Machine) Adrift(group uint16, c engine.Caller) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.Groups[group]
	return g != nil && g.State.Adrift(c)
}

// Intents is the policy changes that can be carried out, and whether an attempt at one may have frozen something. It is
// of the system log.
func (m *Machine) Intents() (ready []engine.Intent, freezes bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.System.Ready(), m.System.Freezes()
}

// Marks is what operators want of nodes. It is of the system log.
func (m *Machine) Marks() map[string]wire.Drain {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.System.Marks()
}

// held answers the groups of the log, from one on, in which something is held.
func (m *Machine) held(from uint16) (numbers []uint16) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.Order {
		if locks, _ := g.State.Counts(); locks > 0 && g.Number >= from {
			numbers = append(numbers, g.Number)
		}
	}
	return numbers
}
