package gossip

import (
	"time"

	"github.com/hashicorp/memberlist"
)

// timing is how patient a node is.
type timing struct {
	probe, ack time.Duration // a member is looked at this often, and has this long to answer
	// how long a suspect may take to object: suspicion × log10(members) × probe, at least 1 × ...
	suspicion     int
	suspicionMax  int           // ... and this many times longer while few confirm it
	gossip        time.Duration // between rounds of what is new
	sync          time.Duration // between exchanges of everything with one member
	dead          time.Duration // how long memberlist itself remembers who is gone
	stream, dial  time.Duration // limits of one exchange, and of its beginning
	retry, slowly time.Duration // first and longest wait between tries to join
	rejoin        time.Duration // between tries to find who is gone, for up to rejoinNodes members
	notice        time.Duration // between two notices to the same refused node
	// clash is how long a newcomer is refused before its node id is another's for sure:
	// longer than a death goes unnoticed, since a former self may be thought alive.
	clash time.Duration
}

// lan is for nodes on several machines: memberlist's own values for such networks.
// A node that dies is noticed after 5 to 10 s in a small cluster.
var lan = timing{
	probe: time.Second, ack: 500 * time.Millisecond, suspicion: 4, suspicionMax: 6,
	gossip: 200 * time.Millisecond, sync: 30 * time.Second, dead: 30 * time.Second,
	stream: 5 * time.Second, dial: 2 * time.Second,
	retry: 250 * time.Millisecond, slowly: 3 * time.Second, rejoin: 10 * time.Second,
	notice: 5 * time.Second, clash: time.Minute,
}

// oneHost is for nodes that share a machine, which is slow rather than far away. A
// node that dies is noticed after 2 to 5 s.
var oneHost = timing{
	probe: 300 * time.Millisecond, ack: 200 * time.Millisecond, suspicion: 8, suspicionMax: 2,
	gossip: 50 * time.Millisecond, sync: 3 * time.Second, dead: 5 * time.Second,
	stream: 5 * time.Second, dial: 2 * time.Second,
	retry: 50 * time.Millisecond, slowly: 500 * time.Millisecond, rejoin: 500 * time.Millisecond,
	notice: 500 * time.Millisecond, clash: 10 * time.Second,
}

// rejoinNodes is the size up to which each node looks for the lost ones at full rate.
// Above it all nodes together keep to the rate that this many have.
const rejoinNodes = 32

// maxPacket is the largest datagram that is sent, in bytes: it fits an Ethernet frame.
const maxPacket = 1400

// settings are memberlist's, as far as they do not differ between a node and a probe.
func (t *timing) settings(key []byte) *memberlist.Config {
	c := memberlist.DefaultLANConfig()
	c.SecretKey = key
	c.TCPTimeout = t.stream
	c.ProbeInterval, c.ProbeTimeout = t.probe, t.ack
	c.SuspicionMult, c.SuspicionMaxTimeoutMult = t.suspicion, t.suspicionMax
	c.GossipInterval, c.PushPullInterval, c.GossipToTheDeadTime = t.gossip, t.sync, t.dead
	c.UDPBufferSize = maxPacket
	// LZW makes packets of a few hundred bytes hardly shorter, and costs a table of
	// its own for each.
	c.EnableCompression = false
	// Names change with each start, so nobody claims an address of a dead node.
	c.DeadNodeReclaimTime = 0
	return c
}
