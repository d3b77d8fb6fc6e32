package groups

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/pathlockd/pathlockd/wire"
)

// groupOf is the virtual group of a namespace.
func (n *Node) groupOf(ns string) uint16 { return n.cache.get(ns, n.cfg.GroupCount) }

// groupCache remembers the groups of namespaces asked for lately: rendezvous
// hashing weighs every group, which takes longer than anything else on the way of
// a request. It is a table of as many names as it has slots, and needs no lock.
type groupCache struct {
	slots [4096]atomic.Pointer[cachedGroup]
}

type cachedGroup struct {
	ns    string
	group uint16
}

func (c *groupCache) get(ns string, groups int) uint16 {
	slot := &c.slots[xxh3.HashString(ns)%uint64(len(c.slots))]
	if e := slot.Load(); e != nil && e.ns == ns {
		return e.group
	}
	e := &cachedGroup{ns: strings.Clone(ns), group: wire.GroupOf(ns, groups)}
	slot.Store(e)
	return e.group
}

// groupsOf lists the groups that live in a log.
func (n *Node) groupsOf(shard uint64) (groups []uint16) {
	for g, s := range n.homes {
		if s == shard {
			groups = append(groups, uint16(g))
		}
	}
	return groups
}

// ordered lists the logs by number. What is done to all of them in the course of requests
// is done in this order, so that a run of the simulation can be repeated.
func (n *Node) ordered() []*shardLog {
	all := make([]*shardLog, 0, len(n.logs))
	for _, shard := range n.id.shards() {
		all = append(all, n.logs[shard])
	}
	return all
}

// logOf is the log a group lives in.
func (n *Node) logOf(group uint16) *shardLog {
	if group == systemGroup {
		return n.logs[systemShard]
	}
	return n.logs[n.homes[group]]
}

// oneNamespace answers the namespace of all the paths; one is false when they span
// several, or there are none.
func oneNamespace(r *wire.Routes, paths []wire.ReleaseRequest) (ns string, one bool) {
	for i := range paths {
		switch other := r.Resolve(paths[i].Path); {
		case i == 0:
			ns, one = other, true
		case other != ns:
			return "", false
		}
	}
	return ns, one
}

func samePaths(r *wire.Routes, paths []string) (ns string, one bool) {
	for i := range paths {
		switch other := r.Resolve(paths[i]); {
		case i == 0:
			ns, one = other, true
		case other != ns:
			return "", false
		}
	}
	return ns, one
}

func spans(a, nsA, b, nsB string) *wire.Error {
	return wire.Errorf(wire.InvalidArgument,
		"requests: %s is in namespace %s and %s in %s: all paths of one acquire must share one namespace",
		wire.Quote(a), wire.Quote(nsA), wire.Quote(b), wire.Quote(nsB))
}

// redirects sends a call to the node that leads its log, if its session would rather go
// there.
func (n *Node) redirects(c *wire.Call, l *shardLog) *wire.Error {
	if !c.Session.Redirect || l.shard == systemShard || l.mine() != 0 {
		return nil
	}
	host := n.leading(l.shard)
	if host == "" || host == n.id.HostID {
		return nil
	}
	node := n.nodeOf(host)
	if node == "" {
		return nil
	}
	return &wire.Error{Code: wire.Redirect, Message: node}
}

// learnRoutes gets the routes in force from the system log's leader. It is for nodes that
// have no replica of that log.
func (n *Node) learnRoutes(since time.Duration) *wire.Error {
	return n.learnRoutesBy(askRoute, n.routes.Load().Version, since)
}

// laterWithin is how long a node is asked for routes that are not there yet.
const laterWithin = 5 * time.Second

// learnRoutesAfter is learnRoutes, but waits a while for routes later than of a version.
func (n *Node) learnRoutesAfter(version uint64) *wire.Error {
	return n.learnRoutesBy(askLater, version, n.clock.Mono())
}

// learnRoutesBy asks for the routes in force, if they are later than of a version. They come in pages, which
// must all be of one version: a change that comes between them has the first asked for again.
func (n *Node) learnRoutesBy(what asked, version uint64, since time.Duration) *wire.Error {
	var roots []string
	of, after := uint64(0), ""
	for {
		res := n.askLeader(n.logs[systemShard], &query{what: what, version: version, after: after}, since)
		if err := res.Err(); err != nil || res.List == nil {
			return err
		}
		if after != "" && res.Count != of {
			if n.clock.Mono()-since >= n.cfg.RequestTimeout {
				return wire.Errorf(wire.Unavailable,
					"the namespace policies changed again and again while they were read; nothing was read, try again")
			}
			roots, after = nil, ""
			continue
		}
		roots, of = append(roots, res.List.Names...), res.Count
		if after = string(res.List.Cursor); after == "" {
			n.setRoutes(wire.NewRoutes(of, n.cfg.Segments, roots))
			return nil
		}
	}
}

// setRoutes makes this node resolve paths by routes, unless it knows later ones.
func (n *Node) setRoutes(r *wire.Routes) {
	for {
		now := n.routes.Load()
		if now != nil && r.Version <= now.Version {
			return
		}
		if n.routes.CompareAndSwap(now, r) {
			n.moves.rouse()
			if now == nil || !slices.Equal(now.TopologyRoots(), r.TopologyRoots()) {
				n.topologyChanged() // clients look for namespaces themselves
			}
			return
		}
	}
}
