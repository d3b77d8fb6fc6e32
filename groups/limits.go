package groups

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/engine"
)

// limits is every number that decides what applying an entry does, and that is not fixed
// when a cluster is founded. They come from the configuration and from the build of a node,
// and both differ between nodes, at the latest while one after the other gets a new one. So
// no replica goes by its own: whoever begins a leader epoch in a log states the limits with it, they
// are part of the log's state from then on, and every replica applies by them
// (docs/decisions/0019).
type limits struct {
	engine.Limits

	MaxStepMillis  int // how far one entry moves the lease clock
	RememberMillis int // how long a session that asks nothing is remembered
	MaxSessions    int // sessions that a log remembers
	MaxWindow      int // requests of a session whose answers a log keeps
	MaxSteps       int // answers it keeps beside those, to further steps of requests
}

// limitRows is all of them, in the order in which entries and rows have them. New ones are
// appended.
var limitRows = []struct {
	name string
	of   func(*limits) *int
}{
	{"max_queued_paths_per_group", func(l *limits) *int { return &l.MaxQueued }},
	{"kept answers", func(l *limits) *int { return &l.MaxKept }},
	{"wait edges", func(l *limits) *int { return &l.MaxEdges }},
	{"fence floors", func(l *limits) *int { return &l.MaxFloors }},
	{"ended in one step", func(l *limits) *int { return &l.ReapBudget }},
	{"ms an answer is kept", func(l *limits) *int { return &l.KeptMillis }},
	{"ms of a revoke mark", func(l *limits) *int { return &l.RevokeMillis }},
	{"ms of a wait", func(l *limits) *int { return &l.QueueMillis }},
	{"waiters looked at", func(l *limits) *int { return &l.OvertakeLook }},
	{"namespaces with a policy", func(l *limits) *int { return &l.MaxRoots }},
	{"policy changes under way", func(l *limits) *int { return &l.MaxIntents }},
	{"kept answers of the system group", func(l *limits) *int { return &l.MaxSysKept }},
	{"marked nodes", func(l *limits) *int { return &l.MaxMarks }},
	{"ms of one entry", func(l *limits) *int { return &l.MaxStepMillis }},
	{"ms a session is remembered", func(l *limits) *int { return &l.RememberMillis }},
	{"sessions", func(l *limits) *int { return &l.MaxSessions }},
	{"answers of a session", func(l *limits) *int { return &l.MaxWindow }},
	{"answers to steps of a session", func(l *limits) *int { return &l.MaxSteps }},
	{"folded floors", func(l *limits) *int { return &l.MaxFolds }},
	{"leases of a closed connection", func(l *limits) *int { return &l.DepartAtOnce }},
}

// defaultLimits are this build's. They count in a log whose leaders were of builds that
// stated none; no command counts before somebody began a leader epoch.
func defaultLimits() limits {
	return limits{
		Limits: engine.DefaultLimits(), MaxStepMillis: int(maxStep.Milliseconds()),
		RememberMillis: rememberMillis, MaxSessions: maxSessions, MaxWindow: MaxWindow, MaxSteps: maxSteps,
	}
}

// limits is what this node states when its leader epoch begins.
func (c *Config) limits() limits {
	l := defaultLimits()
	l.MaxQueued = c.MaxQueued
	if c.stated != nil {
		c.stated(&l)
	}
	return l
}

// append appends the limits to an entry or a row.
func (l *limits) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(limitRows)))
	for i := range limitRows {
		dst = binary.AppendUvarint(dst, uint64(*limitRows[i].of(l)))
	}
	return dst
}

// readLimits reads what append appends.
func readLimits(r *entryReader) (l limits) {
	l = defaultLimits()
	n := r.uvarint()
	if n > uint64(len(limitRows)) {
		r.err = fmt.Errorf("groups: %d limits are stated and this build knows %d: run a newer version", n, len(limitRows))
		return l
	}
	for i := range n {
		v := r.uvarint()
		if v < 1 || v > maxLimit {
			r.err = errEntry
			return l
		}
		*limitRows[i].of(&l) = int(v)
	}
	return l
}

// maxLimit is more than any limit is.
const maxLimit = 1 << 30

// differ names the limits that another has otherwise.
func (l *limits) differ(other *limits) (text string) {
	for i := range limitRows {
		if a, b := *limitRows[i].of(l), *limitRows[i].of(other); a != b {
			if text != "" {
				text += ", "
			}
			text += fmt.Sprintf("%s %d instead of %d", limitRows[i].name, b, a)
		}
	}
	return text
}

// adopt has the machine go by limits that stand in its log. It is called under the lock.
func (m *machine) adopt(l limits) {
	l = m.plantedLimits(l)
	m.limits, m.stated = l, true
	for _, g := range m.order {
		g.state.SetLimits(l.Limits)
	}
	if m.system != nil {
		m.system.SetLimits(l.Limits)
	}
	m.time.Lock()
	m.time.clock.step = time.Duration(l.MaxStepMillis) * time.Millisecond
	m.time.Unlock()
	m.node.follows(l)
}

// maxStrange bounds the limits of others that a node tells of.
const maxStrange = 16

// strange is the limits of others that a node has told of.
type strange struct {
	sync.Mutex
	told []string
}

// follows tells once that a log goes by other limits than this node's own.
func (n *Node) follows(l limits) {
	own := n.cfg.limits()
	other := own.differ(&l)
	n.strange.Lock()
	defer n.strange.Unlock()
	if other == "" || len(n.strange.told) >= maxStrange || slices.Contains(n.strange.told, other) {
		return
	}
	n.strange.told = append(n.strange.told, other)
	n.log.Warn("logs go by the limits of the nodes that lead them, and those are not this node's: give all nodes the same settings and version", "limits", other)
}
