package groups

import "github.com/pathlockd/pathlockd/engine"

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

// presence is where in the log an owner has a standing.
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

// find answers the groups of the log in which an owner has a standing.
func (m *machine) find(owner string) (numbers []uint16) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.owners[owner]; p != nil {
		for _, g := range p.groups {
			numbers = append(numbers, g.number)
		}
	}
	return numbers
}
