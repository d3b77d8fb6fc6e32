package place

import (
	"maps"
	"math"
	"slices"
	"time"
)

const (
	// Never is a time that does not come.
	Never = time.Duration(math.MaxInt64)
	// maxMembers is how many nodes are remembered, those that are away included.
	// Above it nodes not known yet are not counted.
	maxMembers = 4096
	// maxBackoff is how often the stability window of a node that keeps dropping out
	// is doubled.
	maxBackoff = 4
	// calm is how many times both windows a node has to stay, without a break, for
	// its having dropped out before to be forgotten, and how long one that is away is
	// remembered.
	calm = 16
)

// Drain says how far a node is to be emptied.
type Drain uint8

// Each includes the one before.
const (
	DrainNothing  Drain = iota
	DrainLeads          // it is about to stop: its leaderships move away
	DrainReplicas       // it leaves: then its replicas do
)

// Windows are how long it takes to count and to be dropped.
type Windows struct {
	Stability time.Duration // stability_window_secs
	Eviction  time.Duration // eviction_window_secs
}

// Quiet is how long a node has to watch before it knows who the members are: all that
// it sees soon after its start count by then.
func (w Windows) Quiet() time.Duration { return w.Stability + w.Stability/2 }

// Sighting is a node that is seen alive.
type Sighting struct {
	Node  string
	Disk  string // which data directory it has: raft's host id
	Drain Drain  // what it says of itself
	Short bool   // of disk space, as it says
}

// Node is what is known of a node.
type Node struct {
	ID     string
	Disk   string // of its last sighting; empty: not seen yet
	Alive  bool   // seen now
	Steady bool   // seen with this disk without a break for the stability window
	Stable bool   // a member: counts for placement unless it leaves
	Gone   bool   // not seen for the eviction window
	Drain  Drain
	Short  bool // of disk space: it leads only what nobody else can
}

// View is what a node thinks of the cluster at a time.
type View struct {
	Nodes  map[string]Node
	Placed []string      // what to lay logs out over: stable and not leaving; sorted
	Next   time.Duration // when this changes though nothing else is sighted, or Never
}

// Members decides who counts, from who is seen. A node counts once it was seen
// without a break for the stability window, and until the eviction window after it
// was last seen. Four things keep a storm from becoming a move of data:
//
//   - A node that was dropped has to be seen for longer the next time: the window
//     doubles with each time that it drops out, up to 16 times.
//   - While fewer than half of the members are seen nobody is dropped: it is more
//     likely that this node is cut off. A member that is drained is not waited for.
//   - Nodes that already hold replicas count when they are first heard of (Adopt),
//     so that a leader who knows less than the one before it does not undo what
//     that one did.
//   - While this node is new (Windows.Quiet), a node that is away for less than the
//     eviction window has not been away.
//
// The node itself always counts, unless it leaves.
type Members struct {
	self    string
	windows Windows
	began   time.Duration
	known   map[string]*member
}

// member is what is remembered of a node.
type member struct {
	disk   string
	alive  bool
	stable bool
	since  time.Duration // alive: when this run of sightings of its disk began
	seen   time.Duration // not alive: when it was last seen
	said   Drain         // of itself, when it was last seen
	short  bool          // of disk space, when it was last seen
	mark   Drain         // by operators
	drops  int           // times it was dropped lately
}

func (n *member) drain() Drain { return max(n.said, n.mark) }

// placed says whether logs are laid out over the node.
func (n *member) placed() bool { return n.stable && n.drain() < DrainReplicas }

// waited says whether a node that is away is not dropped while most are away.
func (n *member) waited(held bool) bool { return held && n.drain() < DrainReplicas }

// NewMembers is a cluster in which nobody was seen yet but the node itself.
func NewMembers(now time.Duration, self Sighting, w Windows) *Members {
	m := &Members{self: self.Node, windows: w, began: now, known: make(map[string]*member)}
	m.known[self.Node] = &member{disk: self.Disk, alive: true, stable: true, since: now, said: self.Drain,
		short: self.Short}
	return m
}

// Adopt counts nodes that hold replicas of a log without a wait: another leader has
// seen them for long enough. One that is not seen is given the eviction window from
// now. Nodes that were dropped before are not adopted: they come back by being seen.
func (m *Members) Adopt(now time.Duration, nodes []string) {
	for _, id := range nodes {
		n := m.known[id]
		if n == nil {
			if n = m.admit(now, id); n == nil {
				continue
			}
		}
		if n.drops == 0 {
			n.stable = true
		}
	}
}

// Observe is told, at a monotonic time, all nodes that are seen now, and the marks
// that operators set on nodes, seen or not. A node counts as seen until an Observe
// without it. Of two nodes of one name the one with the disk known before is seen.
func (m *Members) Observe(now time.Duration, seen []Sighting, marks map[string]Drain) View {
	here := make(map[string]Sighting, len(seen))
	for _, s := range seen {
		if m.known[s.Node] == nil && m.admit(now, s.Node) == nil {
			continue
		}
		other, twice := here[s.Node]
		known := m.known[s.Node].disk
		if !twice || s.Disk == known || s.Disk < other.Disk && other.Disk != known {
			here[s.Node] = s
		}
	}
	for id, n := range m.known {
		s, alive := here[id]
		switch {
		case alive:
			n.sighted(now, s, m.forgives(now, n))
		case n.alive && id != m.self:
			n.alive, n.seen = false, now
		}
		n.mark = marks[id]
	}
	m.grow(now)
	held := m.held()
	m.shrink(now, held)
	return m.view(now, held)
}

// admit begins to remember a node, as one last seen now. Those that have been away
// for long make room.
func (m *Members) admit(now time.Duration, id string) *member {
	if len(m.known) >= maxMembers {
		maps.DeleteFunc(m.known, func(_ string, n *member) bool {
			return !n.alive && !n.stable && now-n.seen > calm*(m.windows.Stability+m.windows.Eviction)
		})
	}
	if len(m.known) >= maxMembers {
		return nil
	}
	n := &member{since: now, seen: now}
	m.known[id] = n
	return n
}

// forgives says whether a node's absence just now does not count. While this node is new
// it knows nobody, and in a rolling restart the others are away one after the other: it
// would lay logs out without those that it saw leave for a moment.
func (m *Members) forgives(now time.Duration, n *member) bool {
	return n.drops == 0 && now-m.began < m.windows.Quiet() && now-n.seen < m.windows.Eviction
}

func (n *member) sighted(now time.Duration, s Sighting, forgiven bool) {
	if !n.alive && !forgiven || n.disk != s.Disk {
		n.since = now
	}
	n.alive, n.disk, n.said, n.short = true, s.Disk, s.Drain, s.Short
}

// window is how long a node must be seen to count.
func (m *Members) window(n *member) time.Duration {
	return m.windows.Stability << min(n.drops, maxBackoff)
}

// gone says whether a node was away for too long.
func (m *Members) gone(n *member, now time.Duration, held bool) bool {
	return !n.alive && !n.waited(held) && now-n.seen >= m.windows.Eviction
}

// held says whether fewer than half of the members are seen.
func (m *Members) held() bool {
	stable, alive := 0, 0
	for _, n := range m.known {
		if n.placed() {
			stable++
			if n.alive {
				alive++
			}
		}
	}
	return 2*alive < stable
}

// grow makes members of those who were seen for long enough.
func (m *Members) grow(now time.Duration) {
	for _, n := range m.known {
		if n.alive && now-n.since >= m.window(n) {
			n.stable = true
		}
	}
}

// shrink drops those who were away for too long.
func (m *Members) shrink(now time.Duration, held bool) {
	for _, n := range m.known {
		if !n.stable || !m.gone(n, now, held) {
			continue
		}
		n.stable = false
		if n.seen-n.since >= calm*(m.windows.Stability+m.windows.Eviction) {
			n.drops = 0
		}
		n.drops++
	}
}

func (m *Members) view(now time.Duration, held bool) View {
	v := View{Nodes: make(map[string]Node, len(m.known)), Next: Never}
	for id, n := range m.known {
		steady := id == m.self || n.alive && now-n.since >= m.windows.Stability
		gone := m.gone(n, now, held)
		v.Nodes[id] = Node{ID: id, Disk: n.disk, Alive: n.alive, Steady: steady, Stable: n.stable, Gone: gone,
			Drain: n.drain(), Short: n.short}
		if n.placed() {
			v.Placed = append(v.Placed, id)
		}
		switch {
		case n.alive && !n.stable:
			v.Next = min(v.Next, n.since+m.window(n))
		case n.alive && !steady:
			v.Next = min(v.Next, n.since+m.windows.Stability)
		case !n.alive && !gone && !n.waited(held):
			v.Next = min(v.Next, n.seen+m.windows.Eviction)
		}
	}
	slices.Sort(v.Placed)
	return v
}
