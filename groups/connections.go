package groups

import (
	"fmt"
	"time"

	"github.com/pathlockd/pathlockd/groups/gossip"
	"github.com/pathlockd/pathlockd/groups/link"
	"github.com/pathlockd/pathlockd/groups/mesh"
)

// redialEvery is how often connections are made that should be there.
const redialEvery = 500 * time.Millisecond

// dial makes the connections that are not there.
func (c *cluster) dial() {
	for _, s := range c.sightings() {
		if s.Alive && s.HostID != c.n.id.HostID && s.LinkAddr != "" {
			c.mesh.Conn(s.HostID, s.LinkAddr)
		}
	}
}

// redial goes on making them.
func (c *cluster) redial() {
	t := time.NewTicker(redialEvery)
	defer t.Stop()
	for {
		select {
		case <-c.n.stop:
			return
		case <-t.C:
			c.dial()
		}
	}
}

// takenIn says that a member has let this node in: that it sees members proves nothing,
// since it is told of them before they say whether they take it. Caller holds mu.
func (c *cluster) takenIn() bool {
	for conn := range c.open {
		if s, ok := c.byHost[conn.Peer().Host]; ok && s.Alive && s.State >= gossip.Member {
			return true
		}
	}
	return false
}

// conn answers the connection to a node, nil while there is none.
func (c *cluster) conn(host string) *mesh.Conn {
	s, ok := c.sighting(host)
	if !ok || s.LinkAddr == "" {
		return nil
	}
	return c.mesh.Conn(host, s.LinkAddr)
}

// admitPeer refuses nodes that cannot be who they say.
func (n *Node) admitPeer(p link.Peer) error {
	if n.cluster == nil {
		return nil
	}
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	if s, ok := n.cluster.byNode[p.Node]; ok && s.Alive && s.HostID != p.Host {
		return fmt.Errorf("node_id %s is in use by a node that is alive, with raft host id %s and not %s: give one "+
			"of them another node_id", p.Node, s.HostID, p.Host)
	}
	select {
	case <-n.cluster.up:
		if g := n.cluster.gossip; g != nil {
			return g.Kept(p.Node, p.Host)
		}
	default: // what gossip knows is not known yet
		if had, ok := n.cluster.known.Names()[p.Node]; ok && had.HostID != p.Host {
			return fmt.Errorf("node_id %s was the one of raft host id %s and not of %s, and this node just "+
				"starts: ask again", p.Node, had.HostID, p.Host)
		}
	}
	return nil
}

// reach is since when a node is reached, or is not any more.
type reach struct {
	open  bool
	dead  bool // its process is gone, and its clients' connections with it
	since time.Duration
}

// expects counts the time of a node that was heard of and was never reached since this one's start.
func (n *Node) expects(host string) {
	if n.cluster == nil || host == n.id.HostID {
		return
	}
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	if _, known := n.cluster.reach[host]; !known {
		n.cluster.reach[host] = reach{since: n.clock.Mono()}
	}
}

// reached says that one of some connections is to a node. Caller holds mu.
func reached(host string, conns map[*mesh.Conn]struct{}) bool {
	for conn := range conns {
		if conn.Peer().Host == host {
			return true
		}
	}
	return false
}

// cutOff is the other nodes that are not reached or do not reach this one, or not for reattachGrace yet: what they ask
// comes on the connections that they make. One that left, or whose process ended, has no callers, and one that is away
// for longer than EvictionWindow is given up; so is one that is known from before the start and was not seen since.
func (c *cluster) cutOff() map[string]bool {
	out := make(map[string]bool)
	now := c.n.clock.Mono()
	for host, addr := range c.listeners() {
		c.mu.Lock()
		r := c.reach[host]
		both := r.with(c.heard[host])
		c.mu.Unlock()
		switch {
		case both.open:
			if now-both.since < reattachGrace {
				out[host] = true
			}
		case r.dead || now-both.since >= c.n.cfg.EvictionWindow:
		case !r.open && refuses(addr) && c.n.died(addr):
			c.mu.Lock()
			if c.reach[host] == r {
				c.reach[host] = reach{dead: true, since: r.since}
			}
			c.mu.Unlock()
		default:
			out[host] = true
		}
	}
	return out
}

// with is since when two ways to a node are both there, or one of them is not any more.
func (r reach) with(other reach) reach {
	switch {
	case r.open == other.open:
		return reach{open: r.open, since: max(r.since, other.since)}
	case r.open:
		return other
	}
	return r
}

// listeners is where the processes of the other nodes listen that may have callers, by raft host id.
func (c *cluster) listeners() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := make(map[string]string)
	for host, p := range c.known.By {
		if p.Gossip != "" {
			at[host] = p.Gossip
		}
	}
	for host, s := range c.byHost {
		if at[host] = s.LinkAddr; !s.Alive && s.State == gossip.Leaving {
			delete(at, host)
		}
	}
	delete(at, c.n.id.HostID)
	return at
}

// opened tells a node that can be reached now what this one leads.
func (c *cluster) opened(conn *mesh.Conn) {
	if !conn.Dialed() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.accepted[conn] = struct{}{}
		c.heard[conn.Peer().Host] = reach{open: true, since: c.n.clock.Mono()}
		if r := c.reach[conn.Peer().Host]; r.dead { // it lives again
			c.reach[conn.Peer().Host] = reach{since: c.n.clock.Mono()}
		}
		return
	}
	c.mu.Lock()
	c.open[conn] = struct{}{}
	c.reach[conn.Peer().Host] = reach{open: true, since: c.n.clock.Mono()}
	c.mu.Unlock()
	if !c.adopted.Load() && !c.n.leaving() {
		c.n.running.Go(c.look)
	}
	frame := []byte{frameLeads}
	for shard, l := range c.n.logs {
		if term := l.held.Load(); term != 0 && l.leads() {
			frame = appendLead(frame, shard, term)
		}
	}
	conn.Send(frame)
	for _, l := range c.n.logs {
		l.kick()
	}
	c.n.auditUntold(conn.Peer().Host, c.n.id.Logs()...)
}

func (c *cluster) closed(conn *mesh.Conn, _ error) {
	c.mu.Lock()
	delete(c.open, conn)
	delete(c.accepted, conn)
	switch host := conn.Peer().Host; {
	case conn.Dialed() && !reached(host, c.open):
		c.reach[host] = reach{since: c.n.clock.Mono()}
	case !conn.Dialed() && !reached(host, c.accepted):
		c.heard[host] = reach{since: c.n.clock.Mono()}
	}
	c.mu.Unlock()
	c.asks.lost(conn)
	switch {
	case c.n.leaving():
	case conn.Dialed():
		c.n.running.Go(func() { c.n.failedLeader(conn.Peer().Host) })
	default:
		c.n.running.Go(func() { c.n.looksFor(conn.Peer().Host) })
	}
	c.n.peerGone(conn)
}
