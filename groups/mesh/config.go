package mesh

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"time"

	"github.com/pathlockd/pathlockd/groups/gossip"
	"github.com/pathlockd/pathlockd/groups/link"
)

// Config is what a mesh is made with.
type Config struct {
	Cluster string // cluster id
	Node    string // node_id
	Host    string // raft host id: the data directory's

	// FormatMin to Admit are as in link.Config. With neither
	// Token nor TLS the node is alone: it does not listen and dials nobody.
	FormatMin, FormatMax uint32
	InUse                func() uint32
	Raise                func(format uint32) error
	Token                gossip.Token
	TLS                  *tls.Config
	Admit                func(link.Peer) error

	// Listen is host:port, port 0 for any; "" for no listener.
	Listen string

	// Faults is for the fault laboratory, nil in production.
	Faults link.Faults

	Log *slog.Logger

	// Frame is called with each frame that arrives, in order, on the goroutine that reads
	// the connection. The bytes are valid during the call only. It must not block: while
	// it does, nothing is read.
	Frame func(c *Conn, frame []byte)
	// Opened and Closed, if there, are told once of each connection, dialed or accepted,
	// before its first frame and after its last. Conn answers a connection only between
	// the two. They must not block, and none of the three may wait for Mesh.Close.
	Opened func(c *Conn)
	Closed func(c *Conn, err error)

	timing timing
}

// timing holds the times that doc.go tells, zero for the defaults. Tests make them
// shorter.
type timing struct {
	alive, silence, stall, forget, logEvery time.Duration
}

// Defaults of timing.
const (
	aliveEvery = time.Second
	silence    = 4 * time.Second // so a peer that vanished is noticed within 5 s
	stall      = 5 * time.Second // for a record of 16 KiB
	forget     = time.Minute     // a peer that nobody asks for
	logEvery   = time.Minute     // of failures to reach a peer
)

const (
	// MaxFrameBytes is the length of the longest frame. A longer one ends the connection
	// that it is sent on.
	MaxFrameBytes = 16 << 20
	// maxBacklogBytes is how much may be unsent on a connection. More ends it: the peer
	// does not read.
	maxBacklogBytes = 64 << 20

	minWait  = 20 * time.Millisecond // between two dials
	maxWait  = time.Second
	goodbye  = 250 * time.Millisecond // to tell the peer, or to hear from it, why it ends
	maxPeers = 4096                   // that are dialed
)

// Errors that end a connection.
var (
	errClosed  = errors.New("the node stops")
	errTooLong = errors.New("longer than a frame may be")
	errBacklog = errors.New("the peer does not read what is sent to it")
	errSilent  = errors.New("the peer is silent")
	errByPeer  = errors.New("closed by the peer")
)

var errCut = errors.New("cut by the fault laboratory")

// defaults fills in what is not set.
func (c Config) defaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.timing.alive, aliveEvery)
	set(&c.timing.silence, silence)
	set(&c.timing.stall, stall)
	set(&c.timing.forget, forget)
	set(&c.timing.logEvery, logEvery)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Opened == nil {
		c.Opened = func(*Conn) {}
	}
	if c.Closed == nil {
		c.Closed = func(*Conn, error) {}
	}
	return c
}
