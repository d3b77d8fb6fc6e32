package pathlockd

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// router knows the cluster's nodes and sends each request by the lane of the node
// that leads its group, as far as the topology tells. That it is wrong costs a
// forward and nothing else, so it never waits: while there is no lane to a node, its
// requests go by the home lane.
//
// It does nothing until a topology names another node than the home lane's as a
// leader: with one node, or one address for all, a request costs what it costs
// without it.
//
// Locks are taken in this order: router, way, session; and router, binds. The keeper's is
// taken while none of them is held, and that of binds under it.
type router struct {
	c     *Client
	table atomic.Pointer[table] // nil: everything goes by the home lane
	known atomic.Pointer[[]address]
	logs  atomic.Pointer[logs]  // nil: no topology tells of them
	ways  []atomic.Pointer[way] // by group; nil where nothing was asked yet
	one   atomic.Bool           // everything goes by the home lane, for good
	mu    struct {
		sync.Mutex
		topology *wire.Topology // the latest; nil: none yet
		from     uint64         // number of the connection that told it
		lanes    map[string]*lane
		opening  map[string]chan struct{} // nodes that somebody connects to; to try again at once
		strays   []*lane
		started  bool // requests go by ways
		settled  bool // and what went without one is settled
		bound    bool // owners are bound: everything goes by the home lane
		closed   bool
		flush    []flusher // for unlock
		failed   []failedCall
		turning  bool              // some way is about to change its lane
		tied     map[*session]bool // what keeper.tied told last, at a time; nil: no lane looked idle since
		tiedAt   time.Duration
	}
}

// unlock lets go of the router and sends what became free to be sent under the lock.
func (r *router) unlock() {
	flush, failed, turning := r.mu.flush, r.mu.failed, r.mu.turning
	r.mu.flush, r.mu.failed, r.mu.turning = nil, nil, false
	r.mu.Unlock()
	if turning { // the keeper looks whether that takes too long
		r.c.keeper.nudge()
	}
	for _, f := range flush {
		f.flush()
	}
	r.c.failEach(failed)
}

const (
	// maxLanes is how many nodes a client has a lane to; what others lead goes by
	// the home lane.
	maxLanes = 64
	// maxNodes is how many nodes of a topology are taken as addresses to connect to.
	maxNodes = 256
	// idleLane is how long a lane stays by which nothing goes any more: longer than servers remember its session, as
	// what it took is given back by it.
	idleLane = 70 * time.Second
	// maxReopen bounds the pauses between attempts to open a lane.
	maxReopen = 30 * time.Second
)

func (r *router) init(c *Client) {
	r.c = c
	r.mu.lanes, r.mu.opening = make(map[string]*lane), make(map[string]chan struct{})
	r.known.Store(&c.addrs)
}

// addresses lists where the cluster's nodes may be: those that Dial was given, and
// those that the topology told. It is not to be changed.
func (r *router) addresses() []address { return *r.known.Load() }

// learn takes a topology that a connection told.
func (r *router) learn(t *wire.Topology, on uint64) {
	r.mu.Lock()
	old := r.mu.topology
	if on < r.mu.from || old != nil && on == r.mu.from && t.Version < old.Version || r.mu.closed {
		r.mu.Unlock()
		return
	}
	r.mu.topology, r.mu.from = t, on
	r.logs.Store(newLogs(t))
	all := r.c.addrs
	for i, n := range t.Nodes {
		if a, ok := nodeAddress(n.Native); ok && i < maxNodes && !slices.Contains(all, a) {
			all = append(all[:len(all):len(all)], a)
		}
	}
	r.known.Store(&all)
	r.settle()
	r.unlock()
}

// nodeAddress is the address that a node says it is reached at, if it can be that.
// Several nodes on all interfaces of their hosts would all be the client's own.
func nodeAddress(addr string) (address, bool) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || port == "" || port == "0" {
		return address{}, false
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return address{}, false
	}
	return address{"tcp", addr}, true
}

// attached is called when a lane has got a connection.
func (r *router) attached(l *lane) {
	r.mu.Lock()
	defer r.unlock()
	if l != r.c.home && !l.stray {
		if s, _ := l.server(); s.NodeID != l.node {
			l.stray = true
			delete(r.mu.lanes, l.node)
			r.mu.strays = append(r.mu.strays, l)
		}
	}
	r.settle()
}

// bind has everything go by the home lane from now on while owners are bound, and no
// longer. A lease of a bound owner follows one connection: so there is to be one.
func (r *router) bind() {
	r.mu.Lock()
	defer r.unlock()
	r.mu.bound = r.c.binds.any()
	r.settle()
}

// single says that everything goes by the home lane now. Called under the lock.
func (r *router) single() bool { return r.mu.bound || r.one.Load() }

// oneLane has everything go by the home lane for good, as the program ties leases to its session itself, or holds more
// under those of locks: until when they last, nobody knows but the servers, and the end of the session would end them.
// So the lanes that there are stay until Close, and there are no further ones.
func (r *router) oneLane() {
	if r.one.Load() {
		return
	}
	r.mu.Lock()
	defer r.unlock()
	r.one.Store(true)
	r.settle()
}

// settle gives every way the lane that it should have now, and has those lanes
// opened that are missing. Called under the lock.
func (r *router) settle() {
	t := r.mu.topology
	if t == nil || r.mu.closed || r.c.opt.oneConnection {
		return
	}
	if !r.start(t) {
		return
	}
	r.table.Store(newTable(t))
	for group := range r.ways {
		w := r.ways[group].Load()
		if w == nil {
			continue
		}
		f, failed := w.moveTo(r.choose(group, w))
		r.mu.flush, r.mu.failed = append(r.mu.flush, f), append(r.mu.failed, failed...)
		r.mu.turning = r.mu.turning || w.pending()
	}
}

// start begins to send requests by ways, if there is a reason to, and answers
// whether that is so. Requests that are under way without one are settled before any
// way leaves the home lane.
func (r *router) start(t *wire.Topology) bool {
	groups := int(t.GroupLogs)
	if r.mu.started {
		return groups == len(r.ways) && len(t.LogOf) == groups // it is fixed when a cluster is founded
	}
	home, up := r.c.home.server()
	elsewhere := false
	for _, leader := range t.Leaders {
		elsewhere = elsewhere || leader != "" && leader != home.NodeID && r.addressOf(leader) != (address{})
	}
	if !up || !elsewhere || groups == 0 || groups > maxGroups || len(t.LogOf) != groups {
		return false
	}
	r.mu.started, r.ways = true, make([]atomic.Pointer[way], groups)
	barrier := &way{c: r.c, then: func() {
		r.mu.Lock()
		defer r.unlock()
		r.mu.settled = true
		r.settle()
	}}
	barrier.mu.lane = r.c.home
	barrier.mu.Lock()
	defer barrier.mu.Unlock()
	barrier.mu.open = r.c.home.session.route(barrier)
	r.mu.settled = barrier.mu.open == 0
	return true
}

// maxGroups is how many groups a cluster may have that a client sends to directly.
const maxGroups = 1 << 16

// addressOf is where a node is reached; zero when that is not known.
func (r *router) addressOf(node string) (a address) {
	for _, n := range r.mu.topology.Nodes {
		if n.NodeID == node {
			a, _ = nodeAddress(n.Native)
		}
	}
	return a
}

// leaderOf is the node that leads a group; "" when nobody does, or the cluster was founded anew with fewer groups.
func leaderOf(t *wire.Topology, group int) string {
	if group < len(t.LogOf) && t.LogOf[group] < uint64(len(t.Leaders)) {
		return t.Leaders[t.LogOf[group]]
	}
	return ""
}

// choose answers the lane that a group's requests should go by; w is its way, nil
// when it has none yet.
func (r *router) choose(group int, w *way) *lane {
	home, t := r.c.home, r.mu.topology
	at, _ := home.server()
	if r.single() || !r.mu.settled {
		return home
	}
	leader := leaderOf(t, group)
	if leader == "" && w != nil { // nobody, for the moment
		if l := w.lane(); !l.stray {
			return l
		}
		return home
	}
	if leader == "" || leader == at.NodeID {
		return home
	}
	if l := r.mu.lanes[leader]; l != nil {
		return l
	}
	r.open(leader)
	return home
}
