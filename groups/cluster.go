package groups

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/pathlockd/pathlockd/groups/codec"
	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/events"
	"github.com/pathlockd/pathlockd/groups/gossip"
	"github.com/pathlockd/pathlockd/groups/link"
	"github.com/pathlockd/pathlockd/groups/mesh"
	"github.com/pathlockd/pathlockd/groups/rows"
)

// cluster is a node's part in a cluster of several: who the others are (gossip), the
// connections to them (mesh), and what nodes tell and ask each other over those.
//
//	frame    = kind …
//	leads    = 1 [log term]…                     I lead these
//	replicas = 2 id [log replica]…               you host these; how far are they?
//	applied  = 3 id [applied+1]…                 0 for one that is not there
//	member   = 4 id [log replica]…               are these still members?
//	judged   = 5 id [verdict]…                   (audit.go)
//	ask      = 6 id length name arguments        a question as JSON, by its name (told.go)
//	told     = 7 id answer
//	8–10     events (feed.go)
//	16…      forwarded requests (forward.go)
//
// Numbers are unsigned varints; a verdict is a byte; arguments and answer are JSON up to
// the frame's end.
type cluster struct {
	n      *Node
	mesh   *mesh.Mesh
	gossip *gossip.Members
	asks   asks

	looking sync.Mutex  // one look at a time
	adopted atomic.Bool // need not be noted again; set under looking

	mu     sync.Mutex
	byHost map[string]gossip.Sighting // by raft host id
	byNode map[string]gossip.Sighting // by node id, alive before dead
	known  datadir.Peers
	listen string                  // link_addr
	open   map[*mesh.Conn]struct{} // dialed
	reach  map[string]reach        // by raft host id

	accepted map[*mesh.Conn]struct{}
	heard    map[string]reach // over those, likewise

	busy   chan struct{} // a token for each question that is being answered
	up     chan struct{} // closed when the node takes frames, or is on its way out
	upOnce sync.Once
}

// Kinds of frames.
const (
	frameLeads byte = iota + 1
	frameReplicas
	frameApplied
	frameMember
	frameJudged
	frameAsk
	frameTold

	firstForward byte = 16
)

// openCluster makes the node reachable for others, if it can have any.
func (n *Node) openCluster() error {
	c := &cluster{
		n: n, byHost: make(map[string]gossip.Sighting), byNode: make(map[string]gossip.Sighting),
		open: make(map[*mesh.Conn]struct{}), accepted: make(map[*mesh.Conn]struct{}),
		reach: make(map[string]reach), heard: make(map[string]reach),
		busy: make(chan struct{}, maxAnswering), up: make(chan struct{}),
	}
	if err := c.known.Load(n.cfg.DataDir); err != nil {
		return err
	}
	if n.cfg.Token == "" {
		if n.id.Joined || len(c.known.By) > 0 {
			return errors.New("internal_auth_token: this data_dir belongs to a cluster of several nodes, which need " +
				"it, the same for all of them")
		}
		return n.soleFormat()
	}
	n.formats.Write(c.formats())
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
		FormatMin: rows.OldestFormat, FormatMax: rows.NewestFormat, InUse: n.formats.InUse, Raise: n.useFormat,
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
	state, used := gossip.Member, n.formats.InUse()
	if n.id.Joined && !n.id.Adopted {
		state = gossip.Joining
	}
	c.gossip, err = gossip.Start(gossip.Config{
		Self: gossip.Record{
			NodeID: n.id.NodeID, ClusterID: n.id.ClusterID, HostID: n.id.HostID, Incarnation: n.id.Starts,
			RaftAddr: n.cfg.RaftAddr, LinkAddr: net.JoinHostPort(linkHost, linkPort), NativeAddr: n.cfg.NativeAddr,
			FormatMin: used, FormatMax: rows.NewestFormat, State: state, Shortage: n.shortage(),
		},
		Token: n.cfg.Token, TLS: n.cfg.LinkTLS, Hosts: c.known.Hosts(), Bind: n.cfg.GossipAddr,
		Advertise: n.cfg.GossipAdvertise,
		Seeds:     append(append([]string(nil), n.cfg.Seeds...), c.known.Gossip(n.cfg.Seeds)...), Settings: n.id.Told(),
		Keep: n.cfg.EvictionWindow / 2, Kept: c.known.Names(),
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
	n.running.Go(func() { n.formatLoop(used) })
	n.running.Go(n.feedLoop)
	n.running.Go(n.placeLoop)
	n.running.Go(func() { n.auditLoop(n.audit) })
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
		node, self := c.known.At(to), c.n.id.NodeID
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

// frame takes what another node says.
func (c *cluster) frame(conn *mesh.Conn, frame []byte) {
	<-c.up
	if len(frame) == 0 {
		return
	}
	if frame[0] >= firstForward {
		c.n.forwarded(conn, conn.Peer().Host, frame)
		return
	}
	r := codec.Reader{Buf: frame[1:]}
	switch frame[0] {
	case frameLeads:
		for len(r.Buf) > 0 && r.Err == nil {
			shard, term := r.Uvarint(), r.Uvarint()
			if r.Err == nil {
				c.n.noteLeader(shard, term, conn.Peer().Host)
			}
		}
	case frameReplicas:
		c.tellApplied(conn, &r)
	case frameMember:
		c.judge(conn, &r)
	case frameAsk:
		c.answerText(conn, &r)
	case events.FrameFeed, events.FrameEvents, events.FrameFeedEnd, events.FrameLeases:
		c.n.feedFrame(conn, frame[0], &r)
	case frameApplied, frameJudged, frameTold:
		c.asks.answer(conn, r.Uvarint(), r.Buf)
	}
	if r.Err != nil {
		conn.Close(fmt.Errorf("a frame of kind %d that is malformed", frame[0]))
	}
}
