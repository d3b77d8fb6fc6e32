package groups

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/lni/dragonboat/v4/config"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/groups/gossip"
	"github.com/pathlockd/pathlockd/groups/link"
	"github.com/pathlockd/pathlockd/groups/raft"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// Config is what a node is made with. The names are those of the configuration
// keys (docs/configuration.md), where units and defaults are told.
type Config struct {
	DataDir    string
	NodeID     string
	RaftAddr   string // host:port raft listens on
	NativeAddr string // where clients reach this node, for the topology

	GroupCount        int
	LogCount          int
	Segments          int // routing_prefix_segments
	Algorithm         wire.Algorithm
	ReplicationFactor int
	Bootstrap         bool

	// Token is the secret that the nodes of a cluster share. Without it, and without
	// LinkTLS, the node is alone.
	Token gossip.Token
	// the operator's certificates for links between nodes, instead of the token's, and for gossip
	LinkTLS         *tls.Config
	Seeds           []string // gossip addresses of nodes to join, host:port
	ForceBootstrap  bool     // found a cluster though none of the seeds answers
	GossipAddr      string   // where gossip listens, host:port
	GossipAdvertise string   // where others find it, if that differs
	LinkAddr        string   // where other nodes forward requests to, host:port; its listener is there
	// Given names the settings fixed at birth that the operator configured: a node that
	// joins takes the others from its cluster.
	Given []string

	StabilityWindow time.Duration // how long a node is seen before it counts
	EvictionWindow  time.Duration // how long a node is away before it does not count
	AuditEvery      time.Duration // between asking leaders whether this node's replicas are members yet
	LeaderBalance   time.Duration // between rounds that even leaderships out
	MaxReconciles   int           // logs whose members one node changes at a time
	OneHost         bool          // all nodes share a machine: deaths are noticed sooner

	MaxInflight    int // requests per group that are not applied yet
	MaxQueued      int // paths waited for per group
	EventBuffer    int // events kept per log
	RequestTimeout time.Duration

	ElectionMin time.Duration // elections happen after one to two times this
	Heartbeat   time.Duration
	SnapshotLog uint64 // entries of a log between raft snapshots
	KeepEntries uint64 // entries kept behind a snapshot

	DiskReserve uint64                           // free bytes below which writes are refused
	Free        func(dir string) (uint64, error) // bytes free where a directory is; nil: the file system's

	Log    *slog.Logger
	Clock  replica.Clock // nil: the machine's
	RaftFS config.IFS    // of the raft log; nil: the operating system's
	FS     vfs.FS        // of the state database; nil: the operating system's

	// Faults is for the fault laboratory: it decides what becomes of what this node
	// sends to others.
	Faults link.Faults

	// Fatal is for the fault laboratory, which has several nodes in its process: it is called, from any goroutine and
	// at any depth, when storage failed and nothing more can be made durable, or when another node has this one's name.
	// nil ends the process. It returns once nobody hears of this node any more and its disks keep nothing of what is
	// written: what failed is then taken for done, as nobody will ever know, so that the node can be closed.
	Fatal func(error)

	// NoEngine is for benchmarks alone: clients' commands go all the way through
	// their log and are then answered OK without being carried out. What is left is
	// the cost of everything but the lock rules. No configuration key sets it.
	NoEngine bool

	folding replica.FoldBounds    // as DefaultFolding, but in tests
	seams   *seams                // of the simulation, nil for what a node has
	stated  func(*replica.Limits) // of tests: what the node states other than its build's
}

// RepeatMillis is how long after it asked first a client may ask again under the same id, and MaxWindow the most
// answers that are kept for a session in one log.
const (
	RepeatMillis = replica.RepeatMillis
	MaxWindow    = replica.MaxWindow
)

// seams is what the simulation of the tests puts in the place of raft, of goroutines, of
// connections to other nodes, and of chance.
type seams struct {
	raft    func(*Node) raft.Host
	tasks   tasks
	peer    func(host string) peerConn
	cutOff  func() map[string]bool // see cluster.cutOff
	process uint64                 // incarnation
	beside  replica.Observer       // nil: nobody
	claimed func()                 // a call has its claim and goes on; nil: nobody is told
}

// Defaults fills in what is not set, as contract.md section 14 says.
func (c Config) Defaults() Config {
	set := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	span := func(p *time.Duration, v time.Duration) {
		if *p == 0 {
			*p = v
		}
	}
	if c.folding == (replica.FoldBounds{}) {
		c.folding = replica.DefaultFolding
	}
	set(&c.GroupCount, 256)
	set(&c.LogCount, 16)
	set(&c.ReplicationFactor, 3)
	set(&c.MaxInflight, 1024)
	set(&c.MaxQueued, engine.DefaultMaxQueued)
	set(&c.EventBuffer, 8192)
	set(&c.MaxReconciles, 4)
	span(&c.RequestTimeout, 30*time.Second)
	span(&c.ElectionMin, 1500*time.Millisecond)
	span(&c.Heartbeat, 500*time.Millisecond)
	span(&c.StabilityWindow, 30*time.Second)
	span(&c.EvictionWindow, time.Minute)
	span(&c.AuditEvery, 5*time.Second)
	span(&c.LeaderBalance, time.Minute)
	if c.SnapshotLog == 0 {
		c.SnapshotLog = 10_000
	}
	if c.KeepEntries == 0 {
		c.KeepEntries = 5000
	}
	if c.NodeID == "" {
		c.NodeID = "pathlockd-0"
	}
	if c.RaftAddr == "" {
		c.RaftAddr = "localhost:50052"
	}
	c.LogCount = min(c.LogCount, c.GroupCount)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Clock == nil {
		c.Clock = replica.NewSystemClock()
	}
	if c.Free == nil {
		c.Free = datadir.FreeBytes
	}
	if c.FS == nil {
		c.FS = vfs.Default
	}
	return c
}

// birth is what of the configuration gives a data directory its identity.
func (c *Config) birth() *datadir.Birth {
	return &datadir.Birth{
		Dir: c.DataDir, NodeID: c.NodeID,
		Settings: datadir.Settings{
			GroupCount: c.GroupCount, LogCount: c.LogCount, Segments: c.Segments, Algorithm: c.Algorithm.String(),
			Replication: c.ReplicationFactor,
		},
		Given: c.Given, Bootstrap: c.Bootstrap, ForceBootstrap: c.ForceBootstrap, Seeds: c.Seeds,
		GossipAddr: c.GossipAddr, Advertise: c.GossipAdvertise, Token: c.Token, TLS: c.LinkTLS, Log: c.Log,
	}
}

// settle makes the configuration say what the identity does.
func (c *Config) settle(id *datadir.Identity) error {
	c.GroupCount, c.LogCount, c.Segments, c.ReplicationFactor = id.GroupCount, id.LogCount, id.Segments, id.Replication
	a, ok := wire.ParseAlgorithm(id.Algorithm)
	if !ok {
		return fmt.Errorf("data_dir %s: default_lock_algorithm %q is not known to this version", c.DataDir,
			id.Algorithm)
	}
	c.Algorithm = a
	return nil
}
