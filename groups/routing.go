package groups

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
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
	for _, shard := range n.id.Logs() {
		all = append(all, n.logs[shard])
	}
	return all
}

// logOf is the log a group lives in.
func (n *Node) logOf(group uint16) *shardLog {
	if group == replica.SystemGroup {
		return n.logs[rows.SystemLog]
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
	if !c.Session.Redirect || l.shard == rows.SystemLog || l.mine() != 0 {
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
