package groups

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/groups/link"
	"github.com/pathlockd/pathlockd/groups/members"
	"github.com/pathlockd/pathlockd/groups/mesh"
	"github.com/pathlockd/pathlockd/wire"
)

// cluster is a node's part in a cluster of several: who the others are (gossip), the
// connections to them (mesh), and what nodes tell and ask each other over those.
//
//	frame  = kind …
//	leads  = 1 [log term]…                      I lead these
//	seats  = 2 id [log replica]…                you host these; how far are they?
//	applied = 3 id [applied+1]…                 0 for one that is not there
//	member = 4 id [log replica]…                are these still members?
//	judged = 5 id [verdict]…
//	text   = 6 id what length bytes             surveys and orders of operators (admin.go)
//	told   = 7 id length bytes
//	8–10   events (feed.go)
//	16…    forwarded requests (forward.go)
//
// Numbers are unsigned varints.
type cluster struct {
	n      *Node
	mesh   *mesh.Mesh
	gossip *members.Members
	asks   asks

	looking sync.Mutex // one look at a time
	adopted bool       // need not be noted again; under looking

	mu     sync.Mutex
	byHost map[string]members.Sighting // by raft host id
	byNode map[string]members.Sighting // by node id, alive before dead
	known  peers
	listen string                  // link_addr
	open   map[*mesh.Conn]struct{} // dialed
	ended  map[endedFeed]bool

	busy   chan struct{} // a token for each question that is being answered
	up     chan struct{} // closed when the node takes frames, or is on its way out
	upOnce sync.Once
}

// Kinds of frames.
const (
	frameLeads byte = iota + 1
	frameSeats
	frameApplied
	frameMember
	frameJudged
	frameAsk
	frameTold

	firstForward byte = 16
)

// formats that this build reads and writes in what nodes share.
const formatMin, formatMax = entryFormat, entryFormat

// redialEvery is how often connections are made that should be there.
const redialEvery = 500 * time.Millisecond

// openCluster makes the node reachable for others, if it can have any.
func (n *Node) openCluster() error {
	c := &cluster{
		n: n, byHost: make(map[string]members.Sighting), byNode: make(map[string]members.Sighting),
		open: make(map[*mesh.Conn]struct{}), ended: make(map[endedFeed]bool), busy: make(chan struct{}, maxAnswering), up: make(chan struct{}),
	}
	if err := c.known.load(n.cfg.DataDir); err != nil {
		return err
	}
	if n.cfg.Token == "" {
		if n.id.Joined || len(c.known.by) > 0 {
			return errors.New("internal_auth_token: this data_dir belongs to a cluster of several nodes, which need it, the same for all of them")
		}
		return nil
	}
	host, _, err := net.SplitHostPort(n.cfg.RaftAddr)
	if err != nil {
		return fmt.Errorf("raft_addr %s: %w", n.cfg.RaftAddr, err)
	}
	c.listen = n.cfg.LinkAddr
	if c.listen == "" {
		c.listen = net.JoinHostPort(host, "0")
	}
	c.mesh, err = mesh.New(mesh.Config{
		Cluster: n.id.ClusterID, Node: n.id.NodeID, Host: n.id.HostID, Token: n.cfg.Token, TLS: n.cfg.LinkTLS,
		FormatMin: formatMin, FormatMax: formatMax,
		Listen: c.listen, Admit: n.admitPeer, Faults: n.cfg.Faults, Log: n.log,
		Frame: c.frame, Opened: c.opened, Closed: c.closed,
	})
	if err != nil {
		return fmt.Errorf("link_addr %s: %w", c.listen, err)
	}
	n.cluster = c
	return nil
}

// joinCluster makes the node one of its cluster: others find it, and it finds them.
func (n *Node) joinCluster() (err error) {
	c := n.cluster
	if c == nil {
		return nil
	}
	linkHost, _, _ := net.SplitHostPort(c.listen)
	_, linkPort, _ := net.SplitHostPort(c.mesh.Addr())
	state := members.Member
	if n.id.Joined && !n.id.Adopted {
		state = members.Joining
	}
	c.gossip, err = members.Start(members.Config{
		Self: members.Record{
			NodeID: n.id.NodeID, ClusterID: n.id.ClusterID, HostID: n.id.HostID, Incarnation: n.id.Starts,
			RaftAddr: n.cfg.RaftAddr, LinkAddr: net.JoinHostPort(linkHost, linkPort), NativeAddr: n.cfg.NativeAddr,
			FormatMin: formatMin, FormatMax: formatMax, State: state,
		},
		Token: n.cfg.Token, Bind: n.cfg.GossipAddr, Advertise: n.cfg.GossipAdvertise,
		Seeds: append(append([]string(nil), n.cfg.Seeds...), c.known.gossip(n.cfg.Seeds)...), Settings: n.id.settings(),
		OneHost: n.cfg.OneHost, Lost: c.lost(), Log: n.log,
	})
	if err != nil {
		return err
	}
	if _, err := c.gossip.Watch(c.look); err != nil {
		return err
	}
	c.look()
	c.takeFrames()
	n.running.Go(c.redial)
	n.running.Go(n.feedLoop)
	n.running.Go(n.placeLoop)
	n.running.Go(n.auditLoop)
	return nil
}

// lost is what Faults do to gossip: to what it sends to nodes that are known, by their
// addresses. A connection needs both ways.
func (c *cluster) lost() func(to string, stream bool) bool {
	if c.n.cfg.Faults == nil {
		return nil
	}
	drops := func(from, to string) bool {
		f := c.n.cfg.Faults.Outgoing(link.Passage{From: from, To: to, Kind: link.Gossip})
		return f.Drop || f.Cut
	}
	return func(to string, stream bool) bool {
		c.mu.Lock()
		node, self := c.known.at(to), c.n.id.NodeID
		c.mu.Unlock()
		return node != "" && (drops(self, node) || stream && drops(node, self))
	}
}

// close leaves without a word, unless drain said one.
func (c *cluster) close() error {
	c.takeFrames()
	var err error
	if c.gossip != nil {
		err = c.gossip.Close()
	}
	if c.mesh != nil {
		err = errors.Join(err, c.mesh.Close())
	}
	return err
}

// takeFrames lets frames in: before that, whoever sends some waits.
func (c *cluster) takeFrames() { c.upOnce.Do(func() { close(c.up) }) }

// look takes in what gossip knows.
func (c *cluster) look() {
	c.looking.Lock()
	defer c.looking.Unlock()
	seen := c.gossip.Members()
	adopted := false
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
		c.n.book.found(s.HostID, s.RaftAddr)
		if s.NodeID != c.n.id.NodeID && s.Alive && s.State >= members.Member {
			adopted = true
		}
	}
	peers, err := c.known.take(seen, c.n.id.HostID)
	c.mu.Unlock()
	if err = errors.Join(err, peers.write()); err != nil { // a slow disk must hold up nothing else
		c.n.log.Warn("cannot write down who the other nodes are; a restart needs seed_nodes then", "error", err)
	}
	if adopted && !c.adopted {
		c.adopted = c.n.adopted()
	}
	c.dial()
	c.n.lookAround()
	c.n.topologyChanged()
}

// adopted takes note that the cluster has taken this node in, and answers whether that
// is done.
func (n *Node) adopted() bool {
	n.seats.Lock()
	defer n.seats.Unlock()
	if !n.id.Joined || n.id.Adopted {
		return true
	}
	n.id.Adopted = true
	if err := n.id.save(n.cfg.DataDir); err != nil {
		n.id.Adopted = false
		n.log.Error("cannot write identity.json", "error", err)
		return false
	}
	n.log.Info("adopted by the cluster", "cluster_id", n.id.ClusterID)
	if err := n.cluster.gossip.Update(func(r *members.Record) { r.State = members.Member }); err != nil {
		n.log.Error("cannot tell the others that this node is a member", "error", err)
	}
	return true
}

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
	told := ""
	for {
		select {
		case <-c.n.stop:
			return
		case <-t.C:
			c.dial()
		}
		fault := ""
		if err := c.gossip.Fault(); err != nil {
			fault = err.Error()
		}
		if fault != told && fault != "" {
			c.n.log.Error("this node is kept out of its cluster, trying on", "why", fault)
		}
		told = fault
	}
}

// forget drops nodes that an operator removed and that are gone.
func (c *cluster) forget(marks map[string]wire.Drain) {
	for node, d := range marks {
		s, ok := c.byName(node)
		if d != wire.DrainRemoved || !ok || s.Alive {
			continue
		}
		if err := c.gossip.Forget(node); err != nil {
			continue // it came back
		}
		c.mu.Lock()
		c.known.forget(node)
		c.mu.Unlock()
		c.n.log.Info("forgot a node that was removed", "node", node)
	}
}

// sightings lists the nodes known, one for each data directory.
func (c *cluster) sightings() []members.Sighting {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]members.Sighting, 0, len(c.byHost))
	for _, s := range c.byHost {
		out = append(out, s)
	}
	return out
}

// sighting answers what is known of a raft host id.
func (c *cluster) sighting(host string) (members.Sighting, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.byHost[host]
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
	return n.cluster.known.by[host].Node
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
		return fmt.Errorf("node_id %s is in use by a node that is alive, with raft host id %s and not %s: give one of them another node_id", p.Node, s.HostID, p.Host)
	}
	return nil
}

// opened tells a node that can be reached now what this one leads.
func (c *cluster) opened(conn *mesh.Conn) {
	if !conn.Dialed() {
		return
	}
	c.mu.Lock()
	c.open[conn] = struct{}{}
	c.mu.Unlock()
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
}

func (c *cluster) closed(conn *mesh.Conn, err error) {
	c.mu.Lock()
	delete(c.open, conn)
	for e := range c.ended {
		if e.conn == conn {
			delete(c.ended, e)
		}
	}
	c.mu.Unlock()
	c.asks.lost(conn)
	c.n.hub.lost(conn)
	if conn.Dialed() && !c.n.leaving() {
		c.n.running.Go(func() { c.n.fallen(conn.Peer().Host) })
	}
	c.n.forwardClosed(conn)
}

func appendLead(frame []byte, shard, term uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(frame, shard), term)
}

// led tells everybody that this node leads a log now.
func (n *Node) led(shard, term uint64) {
	n.noteLeader(shard, term, n.id.HostID)
	if n.cluster == nil {
		return
	}
	frame := appendLead([]byte{frameLeads}, shard, term)
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	for conn := range n.cluster.open {
		conn.Send(frame)
	}
}

// frame takes what another node says.
func (c *cluster) frame(conn *mesh.Conn, frame []byte) {
	<-c.up
	if len(frame) == 0 {
		return
	}
	if frame[0] >= firstForward {
		c.n.forwardFrame(conn, frame)
		return
	}
	r := entryReader{buf: frame[1:]}
	switch frame[0] {
	case frameLeads:
		for len(r.buf) > 0 && r.err == nil {
			shard, term := r.uvarint(), r.uvarint()
			if r.err == nil {
				c.n.noteLeader(shard, term, conn.Peer().Host)
			}
		}
	case frameSeats:
		c.tellApplied(conn, &r)
	case frameMember:
		c.judge(conn, &r)
	case frameAsk:
		c.answerText(conn, &r)
	case frameFeed, frameEvents, frameFeedEnd:
		c.feedFrame(conn, frame[0], &r)
	case frameApplied, frameJudged, frameTold:
		c.asks.answer(conn, r.uvarint(), r.buf)
	}
	if r.err != nil {
		conn.Close(fmt.Errorf("a frame of kind %d that is malformed", frame[0]))
	}
}
