package gossip

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// maxMembers is how many node ids are known at once, those that are gone included.
// When another comes, who has been gone longest is forgotten; when all are there, the
// new one is refused.
const maxMembers = 1024

// Sighting is what this node knows about a member, itself included.
type Sighting struct {
	Record
	GossipAddr string // host:port

	// Alive is what is believed of it. Who is not, and was Leaving, left on purpose.
	Alive bool
	// For is how long Alive has had its value, by the monotonic clock. A start of the
	// same data directory that was quicker than its being missed does not interrupt it.
	For time.Duration
}

// entry is one node id's. What a name of memberlist's says is taken over only while
// the entry is of that name.
type entry struct {
	name   string
	meta   []byte
	rec    Record
	gossip netip.AddrPort
	alive  bool
	since  time.Time // when alive got its value; monotonic
}

// table is who is known. memberlist calls it under a lock of its own, so it calls
// nobody but changed, which must not block.
type table struct {
	changed func(what string, s Sighting) // told of each change, in order; called with mu held
	keep    time.Duration                 // how long a name waits for its data directory

	mu struct {
		sync.Mutex
		self  Record
		nodes map[string]*entry // by node id, this node's own aside
		// before is whose names those of nodes were that this start did not see yet.
		before map[string]former // by node id
	}
}

func newTable(self Record, changed func(string, Sighting)) *table {
	t := &table{changed: changed}
	t.mu.self, t.mu.nodes = self, make(map[string]*entry)
	return t
}

// self is this node's record as it is now.
func (t *table) self() Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.self
}

// setSelf replaces this node's record.
func (t *table) setSelf(rec Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.self = rec
}

// admit decides whether what is told about a node is taken over. It is asked about
// each message that says that a node is alive, its own included.
func (t *table) admit(n *memberlist.Node) *refusal {
	t.mu.Lock()
	defer t.mu.Unlock()
	self := &t.mu.self
	if n.Name == self.name() {
		return nil // memberlist settles what is said about itself
	}
	// Nearly all that is heard is known: nothing new is decided about it.
	if id, _, ok := strings.Cut(n.Name, string(tagMark)); ok {
		if e := t.mu.nodes[id]; e != nil && e.name == n.Name && bytes.Equal(e.meta, n.Meta) {
			return nil
		}
	}
	rec, err := decodeRecord(n.Name, n.Meta)
	if err != nil {
		return refuse(ErrRecord, "%s at %s does not gossip as a pathlockd node does: %v", n.Name, n.Address(), err)
	}
	if rec.State == asking {
		return &refusal{reason: errAsking, text: "it only asks"}
	}
	if rec.ClusterID != self.ClusterID {
		return otherCluster(self, &rec, n.Address())
	}
	if !self.fits(&rec) {
		return refuse(ErrFormat, "node %s at %s works with formats %d to %d, node %s with %d to %d: upgrade one "+
			"version after the other",
			rec.NodeID, n.Address(), rec.FormatMin, rec.FormatMax, self.NodeID, self.FormatMin, self.FormatMax)
	}
	if rec.NodeID == self.NodeID {
		if rec.HostID != self.HostID {
			return sameNodeID(&rec, n.Address(), self.HostID, "this node")
		}
		return oldStart(&rec, n.Address(), self.Incarnation)
	}
	e := t.mu.nodes[rec.NodeID]
	switch {
	case e == nil:
		if why := t.kept(&rec, n.Address()); why != nil {
			return why
		}
		if len(t.mu.nodes) >= maxMembers && !t.forgetOne() {
			return refuse(ErrFull, "node %s at %s: %d nodes are known and all are alive, which is the limit",
				rec.NodeID, n.Address(), maxMembers)
		}
	case e.rec.HostID != rec.HostID && e.alive:
		return sameNodeID(&rec, n.Address(), e.rec.HostID, e.gossip.String())
	case e.rec.HostID != rec.HostID:
		if why := t.kept(&rec, n.Address()); why != nil {
			return why
		}
	case e.rec.HostID == rec.HostID && rec.Incarnation < e.rec.Incarnation:
		return oldStart(&rec, n.Address(), e.rec.Incarnation)
	}
	return nil
}

// forgetOne makes room for one more.
func (t *table) forgetOne() bool {
	var oldest *entry
	for _, e := range t.mu.nodes {
		if !e.alive && (oldest == nil || e.since.Before(oldest.since)) {
			oldest = e
		}
	}
	if oldest == nil {
		return false
	}
	delete(t.mu.nodes, oldest.rec.NodeID)
	t.changed("forgotten", oldest.sighting(time.Now()))
	return true
}

// heard takes over what was admitted just before, under the same lock of
// memberlist's.
func (t *table) heard(n *memberlist.Node) {
	rec, err := decodeRecord(n.Name, n.Meta)
	if err != nil || rec.State == asking {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if rec.NodeID == t.mu.self.NodeID || rec.ClusterID != t.mu.self.ClusterID {
		return // itself
	}
	now := time.Now()
	delete(t.mu.before, rec.NodeID)
	e := t.mu.nodes[rec.NodeID]
	what := "changed"
	switch {
	case e == nil:
		e = &entry{since: now, alive: true}
		t.mu.nodes[rec.NodeID] = e
		what = "joined"
	case e.rec.HostID != rec.HostID:
		e.since, e.alive = now, true
		what = "replaced"
	case !e.alive:
		e.since, e.alive = now, true
		what = "back"
	case e.name != n.Name:
		what = "restarted"
	}
	e.name, e.rec, e.gossip = n.Name, rec, gossipAddr(n.Addr, n.Port)
	e.meta = bytes.Clone(n.Meta)
	t.changed(what, e.sighting(now))
}

// gone notes that a process is dead or has left.
func (t *table) gone(n *memberlist.Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.byName(n.Name)
	if e == nil || !e.alive {
		return // a former start, which nobody waits for
	}
	now := time.Now()
	e.alive, e.since = false, now
	what := "gone"
	if e.rec.State == Leaving {
		what = "left"
	}
	t.changed(what, e.sighting(now))
}

func (t *table) byName(name string) *entry {
	id, _, _ := strings.Cut(name, string(tagMark))
	if e := t.mu.nodes[id]; e != nil && e.name == name {
		return e
	}
	return nil
}

// forget drops a node id that is not alive, and with it what its name waits for.
func (t *table) forget(nodeID string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.mu.before, nodeID)
	e := t.mu.nodes[nodeID]
	if e == nil {
		return nil
	}
	if e.alive {
		return fmt.Errorf("node %s is alive: stop it first", nodeID)
	}
	delete(t.mu.nodes, nodeID)
	t.changed("forgotten", e.sighting(time.Now()))
	return nil
}

// all lists everybody but this node, by node id.
func (t *table) all() []Sighting {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	list := make([]Sighting, 0, len(t.mu.nodes)+1)
	for _, e := range t.mu.nodes {
		list = append(list, e.sighting(now))
	}
	slices.SortFunc(list, func(a, b Sighting) int { return strings.Compare(a.NodeID, b.NodeID) })
	return list
}

// addresses lists where members gossip: those who are alive, and those who are
// missed.
func (t *table) addresses() (alive map[netip.AddrPort]bool, missed []netip.AddrPort) {
	t.mu.Lock()
	defer t.mu.Unlock()
	alive = make(map[netip.AddrPort]bool)
	for _, e := range t.mu.nodes {
		if e.alive {
			alive[e.gossip] = true
		}
	}
	for _, e := range t.mu.nodes {
		if !e.alive && e.rec.State != Leaving && !alive[e.gossip] {
			missed = append(missed, e.gossip)
		}
	}
	return alive, missed
}

// hosts lists the hosts that whoever gossips at an address says to be reached at for
// raft and requests.
func (t *table) hosts(gossip netip.AddrPort) (list []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.mu.nodes {
		if e.gossip == gossip {
			list = append(list, e.rec.RaftAddr, e.rec.LinkAddr)
		}
	}
	return list
}

// alone says that nobody else is known to be alive.
func (t *table) alone() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.mu.nodes {
		if e.alive {
			return false
		}
	}
	return true
}

func (e *entry) sighting(now time.Time) Sighting {
	return Sighting{Record: e.rec, GossipAddr: e.gossip.String(), Alive: e.alive, For: now.Sub(e.since)}
}

func gossipAddr(ip net.IP, port uint16) netip.AddrPort {
	addr, _ := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(addr.Unmap(), port)
}
