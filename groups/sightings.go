package groups

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/pathlockd/pathlockd/groups/gossip"
	"github.com/pathlockd/pathlockd/wire"
)

// look takes in what gossip knows.
func (c *cluster) look() {
	c.looking.Lock()
	defer c.looking.Unlock()
	seen := c.gossip.Members()
	c.mu.Lock()
	clear(c.byNode)
	clear(c.byHost)
	for _, s := range seen {
		if old, ok := c.byHost[s.HostID]; !ok || s.Alive && !old.Alive {
			c.byHost[s.HostID] = s
		}
		if old, ok := c.byNode[s.NodeID]; !ok || s.Alive && !old.Alive {
			c.byNode[s.NodeID] = s
		}
		c.n.book.Found(s.HostID, s.RaftAddr)
	}
	adopted := c.takenIn()
	peers, err := c.known.Take(seen, c.n.id.HostID)
	c.mu.Unlock()
	for _, s := range seen {
		c.n.processKnown(s.HostID, s.Incarnation)
	}
	if err = errors.Join(err, peers.Write()); err != nil { // a slow disk must hold up nothing else
		c.n.log.Warn("cannot write down who the other nodes are; a restart needs seed_nodes then", "error", err)
	}
	switch {
	case c.adopted.Load():
	case adopted:
		c.adopted.Store(c.n.adopted())
	default:
		c.n.giveUp(c.gossip.Clash())
	}
	c.dial()
	c.n.lookAround()
	c.n.topologyChanged()
}

// adopted takes note that the cluster has taken this node in, and answers whether that
// is done.
func (n *Node) adopted() bool {
	n.idLock.Lock()
	defer n.idLock.Unlock()
	if !n.id.Joined || n.id.Adopted {
		return true
	}
	n.id.Adopted = true
	if err := n.id.Save(n.cfg.DataDir); err != nil {
		n.id.Adopted = false
		n.log.Error("cannot write identity.json", "error", err)
		return false
	}
	n.log.Info("adopted by the cluster", "cluster_id", n.id.ClusterID)
	if err := n.cluster.gossip.Update(func(r *gossip.Record) { r.State = gossip.Member }); err != nil {
		n.log.Error("cannot tell the others that this node is a member", "error", err)
	}
	return true
}

// giveUp ends a node that was never taken in, because its name is another's: it has
// nothing that it could lose, and would be in the way when the other restarts.
func (n *Node) giveUp(clash error) {
	n.idLock.Lock()
	never := n.id.Joined && !n.id.Adopted
	n.idLock.Unlock()
	if clash == nil || !never || n.leaving() {
		return
	}
	err := fmt.Errorf("%w; this node was never part of the cluster: to have it join, empty its data_dir %s and give "+
		"it a node_id that nobody has; if its disk was replaced, stop the process that still runs with the old one",
		clash, n.cfg.DataDir)
	n.cfg.end(n.log, 1, "another node has this node_id", err)
}

// forget drops nodes that an operator removed and that are gone. When it returns, that is
// written down: a restart does not keep their names either.
func (c *cluster) forget(marks map[string]wire.Drain) {
	var removed []string
	for node, d := range marks {
		if d == wire.DrainRemoved {
			removed = append(removed, node)
		}
	}
	if len(removed) == 0 {
		return
	}
	c.looking.Lock() // what gossip knew before is not taken in after this
	defer c.looking.Unlock()
	news := false
	for _, node := range removed {
		s, seen := c.byName(node)
		if s.Alive || c.gossip.Forget(node) != nil {
			continue // it came back
		}
		c.mu.Lock()
		known := c.known.Forget(node) // maybe not seen since this start: nobody waits for it
		c.mu.Unlock()
		if seen || known {
			c.n.log.Info("forgot a node that was removed", "node", node)
		}
		news = news || known
	}
	if !news {
		return
	}
	c.mu.Lock()
	peers, err := c.known.File()
	c.mu.Unlock()
	if err = errors.Join(err, peers.Write()); err != nil {
		c.n.log.Warn("cannot write down that nodes were forgotten; a restart keeps their names for the disks that "+
			"were given up", "error", err)
	}
}

// forgetRemoved drops nodes that were marked as removed by the time of the call.
func (n *Node) forgetRemoved() {
	n.catchUp()
	n.cluster.forget(n.wantedOf(0))
}

// forgetWithin is how long another node is given for that: it may have to ask the system
// log's leader twice.
const forgetWithin = 3 * askWithin

// forgetEverywhere has every node that is seen forget who was removed, before that is taken
// back: the mark is all they know of it, and who looked only later would keep the name for the
// disk that was given up. So does who cannot be asked, or is of a version that does
// not know the question, until the name's time is over.
func (c *cluster) forgetEverywhere() {
	var all sync.WaitGroup
	for _, s := range c.sightings() {
		if s.Alive && s.HostID != c.n.id.HostID {
			all.Go(func() { _ = c.askText(s.HostID, askForget, nil, nil, forgetWithin) })
		}
	}
	c.n.forgetRemoved()
	all.Wait()
}

// sightings lists the nodes known, one for each data directory.
func (c *cluster) sightings() []gossip.Sighting {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.byHost))
}

// sighting answers what is known of a raft host id.
func (c *cluster) sighting(host string) (gossip.Sighting, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.byHost[host]
	return s, ok
}

// byName answers what is known of a node.
func (c *cluster) byName(node string) (gossip.Sighting, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.byNode[node]
	return s, ok
}

// nodeOf names the node of a raft host id, also one that was not seen since this node
// started.
func (n *Node) nodeOf(host string) string {
	if host == n.id.HostID {
		return n.id.NodeID
	}
	if n.cluster == nil {
		return ""
	}
	if s, ok := n.cluster.sighting(host); ok {
		return s.NodeID
	}
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	return n.cluster.known.NodeOf(host)
}

// nameOf is nodeOf for people and plans: a node that nobody knows goes by its raft host
// id.
func (n *Node) nameOf(host string) string {
	if name := n.nodeOf(host); name != "" {
		return name
	}
	return "host " + host
}
