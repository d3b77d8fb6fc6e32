package link

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/pathlockd/pathlockd/groups/gossip"
)

// Config is what a link is made with.
type Config struct {
	Cluster string // cluster id
	Node    string // node_id
	Host    string // raft host id: the data directory's

	// FormatMin and FormatMax are the formats of shared data that this version works
	// with, as gossip tells them. Two nodes must have one in common.
	FormatMin, FormatMax uint32
	// InUse, if there, answers the format that this node's data may be in, from FormatMin
	// on. It only grows. Who does not work with it is refused, and this node tells it as
	// the lowest that it works with.
	InUse func() uint32
	// Raise, if there, is told the one of a peer that was admitted and has a higher one in
	// use, before anything else that the peer says is taken in. Its error is told to the
	// peer, which is refused.
	Raise func(format uint32) error

	// Token is internal_auth_token.
	Token gossip.Token
	// TLS, if there, is the operator's own: Certificates, RootCAs and ClientCAs must be
	// set, and a certificate must serve both directions. What is weaker than TLS 1.3
	// with verified certificates on both sides is overruled. Peers that have such
	// certificates must know Token too, if it is set: an authority may have signed more
	// than nodes.
	TLS *tls.Config

	// Listen is where to listen for raft, dragonboat's listen or raft address if empty.
	Listen string

	// Admit, if there, is asked about each peer that passed all other rules. Its error
	// is told to the peer. It is called from many goroutines and must not block.
	Admit func(Peer) error

	// Faults is for the fault laboratory, nil in production.
	Faults Faults

	Log *slog.Logger

	timing timing
}

// Peer is who is at the other end.
type Peer struct {
	Node string // node_id
	Host string // raft host id
}

// timing holds the times that doc.go tells, zero for the defaults. Tests make them
// shorter.
type timing struct {
	handshake, alive, silence, stall, logEvery time.Duration
}

// Defaults of timing. A node that was away is dialed by dragonboat within 1.5 s of the
// last failure: the times are such that a failure is found soon, also where a network
// swallows packets, in which case TCP alone would take as long again as the outage took.
const (
	dialTimeout      = 2 * time.Second // packets that start a connection are sent again after 1 s
	handshakeTimeout = 5 * time.Second
	aliveEvery       = time.Second
	silence          = 4 * time.Second
	stall            = 10 * time.Second // for a piece of a frame: 25 KiB a second at least
	unacked          = 5 * time.Second  // what was written to a door
	logEvery         = time.Minute      // of the same refusal of the same address
)

// defaults fills in what is not set.
func (c Config) defaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.timing.handshake, handshakeTimeout)
	set(&c.timing.alive, aliveEvery)
	set(&c.timing.silence, silence)
	set(&c.timing.stall, stall)
	set(&c.timing.logEvery, logEvery)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

// inUse is the lowest format that this node works with now.
func (c *Config) inUse() uint32 {
	if c.InUse == nil {
		return c.FormatMin
	}
	return c.InUse()
}

func (c *Config) check() error {
	for _, f := range []struct {
		name, value string
	}{{"cluster id", c.Cluster}, {"node id", c.Node}, {"raft host id", c.Host}} {
		if f.value == "" || len(f.value) > maxNameBytes {
			return fmt.Errorf("%s %q must have 1 to %d bytes", f.name, f.value, maxNameBytes)
		}
	}
	if c.FormatMin > c.FormatMax {
		return fmt.Errorf("formats %d to %d: the first must not be above the last", c.FormatMin, c.FormatMax)
	}
	if c.TLS != nil {
		return gossip.CheckTLS(c.TLS)
	}
	return nil
}
