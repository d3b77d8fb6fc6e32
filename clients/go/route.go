package pathlockd

import (
	"errors"
	"hash/maphash"
	"strings"
	"sync/atomic"

	"github.com/pathlockd/pathlockd/wire"
)

// table is what a topology says of the way from a path to its group. It does not
// change, but for what it remembers.
type table struct {
	routes *wire.Routes
	groups int
	seed   maphash.Seed
	// placed remembers the groups of namespaces asked for lately, as groups does in
	// the server: to work one out weighs all of them.
	placed [512]atomic.Pointer[placed]
}

type placed struct {
	namespace string
	group     int
}

func newTable(t *wire.Topology) *table {
	return &table{
		routes: wire.NewRoutes(t.Version, int(min(t.Segments, wire.MaxPathSegments)), t.Roots),
		groups: int(t.GroupLogs), seed: maphash.MakeSeed(),
	}
}

// group is the group of a namespace.
func (t *table) group(namespace string) int {
	slot := &t.placed[maphash.String(t.seed, namespace)%uint64(len(t.placed))]
	if p := slot.Load(); p != nil && p.namespace == namespace {
		return p.group
	}
	p := &placed{strings.Clone(namespace), int(wire.GroupOf(namespace, t.groups))}
	slot.Store(p)
	return p.group
}

// ordered says that requests of an operation about one namespace are carried out in
// the order in which a session sent them.
func ordered(op wire.Op) bool {
	return op == wire.OpAcquire || op == wire.OpRelease || op == wire.OpRenew
}

// namespace answers which namespace a request is about, "" when that is none or
// several, or is for the server to refuse. It shares the request's memory.
func (t *table) namespace(req *wire.Request) (ns string) {
	switch req.Op {
	case wire.OpAcquire:
		for i := range req.Locks {
			if !t.same(&ns, req.Locks[i].Path) {
				return ""
			}
		}
		fallthrough
	case wire.OpRelease:
		if req.DelWait {
			return ""
		}
		for i := range req.Releases {
			if !t.same(&ns, req.Releases[i].Path) {
				return ""
			}
		}
	case wire.OpRenew, wire.OpListLocks:
		if len(req.Domains) == 1 && t.same(&ns, req.Domains[0]) && ns != req.Domains[0] {
			return ""
		}
	case wire.OpAssertFencing:
		for _, path := range req.Paths {
			if !t.same(&ns, path) {
				return ""
			}
		}
	case wire.OpInspectPath, wire.OpDescribe, wire.OpIsBlocking:
		t.same(&ns, req.Path)
	case wire.OpGetPolicy:
		return req.Namespace
	}
	return ns
}

// same says that path lies in namespace ns, or makes that its namespace when there is
// none yet. It is false for what is no path.
func (t *table) same(ns *string, path string) bool {
	colon := strings.IndexByte(path, ':')
	if colon <= 0 || colon == len(path)-1 || path[colon+1] != '/' {
		*ns = ""
		return false
	}
	in := t.routes.Resolve(path)
	if *ns != "" && *ns != in {
		return false
	}
	*ns = in
	return true
}

// submit sends a call on its way. req is what it asks; nil: decode it if need be.
func (c *Client) submit(one *call, req *wire.Request) error {
	f, err := c.put(one, req)
	f.flush()
	return err
}

// put is submit, but for flushing.
func (c *Client) put(one *call, req *wire.Request) (flusher, error) {
	for {
		f, err := c.putOnce(one, req)
		if !errors.Is(err, errRouted) {
			return f, err
		}
	}
}

func (c *Client) putOnce(one *call, req *wire.Request) (flusher, error) {
	t := c.router.table.Load()
	if one.id != 0 || one.fixed { // a repeat: its id is of the session that gave it
		one.loose = false
		return one.session.put(one)
	}
	if one.ties {
		c.router.oneLane()
	}
	one.way, one.counts, one.settled, one.loose = nil, nil, false, ordered(one.op)
	if t == nil {
		return c.home.session.put(one)
	}
	if req == nil {
		req = one.request()
	}
	ns := t.namespace(req)
	if ns == "" {
		one.loose = false
		return c.home.session.put(one)
	}
	w := c.router.way(t.group(ns))
	if one.loose {
		one.loose = false
		return w.put(one)
	}
	f, err := w.lane().session.put(one)
	if errors.Is(err, errRetired) {
		err = errRouted // to another one
	}
	return f, err
}

// way answers the way of a group, which there is.
func (r *router) way(group int) *way {
	if w := r.ways[group].Load(); w != nil {
		return w
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.ways[group].Load()
	if w == nil {
		w = &way{c: r.c}
		w.mu.lane = r.choose(group, nil)
		r.ways[group].Store(w)
	}
	return w
}
