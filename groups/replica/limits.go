package replica

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/codec"
)

// Limits is every number that decides what applying an entry does, and that is not fixed
// when a cluster is founded. They come from the configuration and from the build of a node,
// and both differ between nodes, at the latest while one after the other gets a new one. So
// no replica goes by its own: whoever begins a leader epoch in a log states the limits with it, they
// are part of the log's state from then on, and every replica applies by them
// (docs/decisions/0019).
type Limits struct {
	engine.Limits

	MaxStepMillis  int // how far one entry moves the lease clock
	RememberMillis int // how long a session that asks nothing is remembered
	MaxSessions    int // sessions that a log remembers
	MaxWindow      int // requests of a session whose answers a log keeps
	MaxSteps       int // answers it keeps beside those, to further steps of requests
}

// LimitRows is all of them, in the order in which entries and rows have them. New ones are
// appended.
var LimitRows = []struct {
	Name string
	Of   func(*Limits) *int
}{
	{"max_queued_paths_per_group", func(l *Limits) *int { return &l.MaxQueued }},
	{"kept answers", func(l *Limits) *int { return &l.MaxKept }},
	{"wait edges", func(l *Limits) *int { return &l.MaxEdges }},
	{"fence floors", func(l *Limits) *int { return &l.MaxFloors }},
	{"ended in one step", func(l *Limits) *int { return &l.ReapBudget }},
	{"ms an answer is kept", func(l *Limits) *int { return &l.KeptMillis }},
	{"ms of a revoke mark", func(l *Limits) *int { return &l.RevokeMillis }},
	{"ms of a wait", func(l *Limits) *int { return &l.QueueMillis }},
	{"waiters looked at", func(l *Limits) *int { return &l.OvertakeLook }},
	{"namespaces with a policy", func(l *Limits) *int { return &l.MaxRoots }},
	{"policy changes under way", func(l *Limits) *int { return &l.MaxIntents }},
	{"kept answers of the system group", func(l *Limits) *int { return &l.MaxSysKept }},
	{"marked nodes", func(l *Limits) *int { return &l.MaxMarks }},
	{"ms of one entry", func(l *Limits) *int { return &l.MaxStepMillis }},
	{"ms a session is remembered", func(l *Limits) *int { return &l.RememberMillis }},
	{"sessions", func(l *Limits) *int { return &l.MaxSessions }},
	{"answers of a session", func(l *Limits) *int { return &l.MaxWindow }},
	{"answers to steps of a session", func(l *Limits) *int { return &l.MaxSteps }},
	{"folded floors", func(l *Limits) *int { return &l.MaxFolds }},
	{"leases of a closed connection", func(l *Limits) *int { return &l.DepartAtOnce }},
}

// DefaultLimits are this build's. They count in a log whose leaders were of builds that
// stated none; no command counts before somebody began a leader epoch.
func DefaultLimits() Limits {
	return Limits{
		Limits: engine.DefaultLimits(), MaxStepMillis: int(MaxStep.Milliseconds()),
		RememberMillis: rememberMillis, MaxSessions: maxSessions, MaxWindow: MaxWindow, MaxSteps: maxSteps,
	}
}

// append appends the limits to an entry or a row.
func (l *Limits) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(LimitRows)))
	for i := range LimitRows {
		dst = binary.AppendUvarint(dst, uint64(*LimitRows[i].Of(l)))
	}
	return dst
}

// ReadLimits reads what append appends.
func ReadLimits(r *codec.Reader) (l Limits) {
	l = DefaultLimits()
	n := r.Uvarint()
	if n > uint64(len(LimitRows)) {
		r.Err = fmt.Errorf("groups: %d limits are stated and this build knows %d: run a newer version", n,
			len(LimitRows))
		return l
	}
	for i := range n {
		v := r.Uvarint()
		if v < 1 || v > maxLimit {
			r.Err = codec.ErrMalformed
			return l
		}
		*LimitRows[i].Of(&l) = int(v)
	}
	return l
}

// maxLimit is more than any limit is.
const maxLimit = 1 << 30

// differ names the limits that another has otherwise.
func (l *Limits) differ(other *Limits) (text string) {
	for i := range LimitRows {
		if a, b := *LimitRows[i].Of(l), *LimitRows[i].Of(other); a != b {
			if text != "" {
				text += ", "
			}
			text += fmt.Sprintf("%s %d instead of %d", LimitRows[i].Name, b, a)
		}
	}
	return text
}

// Adopt has the machine go by limits that stand in its log. It is called under the lock.
func (m *Machine) Adopt(l Limits) {
	l = m.plantedLimits(l)
	m.Limits, m.stated = l, true
	for _, g := range m.Order {
		g.State.SetLimits(l.Limits)
	}
	if m.System != nil {
		m.System.SetLimits(l.Limits)
	}
	m.time.Lock()
	m.time.clock.step = time.Duration(l.MaxStepMillis) * time.Millisecond
	m.time.Unlock()
	m.tellDifference(&l)
}

// tellDifference tells the node where the limits in the log are not its own.
func (m *Machine) tellDifference(l *Limits) {
	if names := m.NodeLimits.differ(l); names != "" {
		m.Host.LimitsDiffer(names)
	}
}

// plantedLimits is the limits to apply by: those of the log, but for a bug that the simulation
// has to find.
func (m *Machine) plantedLimits(l Limits) Limits {
	switch engine.Planted {
	case engine.PlantNodeLimits:
		return m.NodeLimits
	case engine.PlantShortMemory:
		l.RememberMillis = min(l.RememberMillis, 4000)
	}
	return l
}
