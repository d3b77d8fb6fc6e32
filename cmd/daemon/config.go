package daemon

import (
	"net"
	"time"

	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/groups/gossip"
	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// Config is everything a daemon is started with, one field for each key of the
// table. DefaultConfig has the defaults; the zero Config is not usable.
type Config struct {
	NodeID  string
	DataDir string
	Dev     bool

	NativeListen string // host:port, "" for off
	NativeUnix   string // path of a socket, "" for off
	Listen       string // host:port of gRPC
	WebListen    string
	H3Listen     string
	ListenTLS    bool // of gRPC
	TLSCertPath  string
	TLSKeyPath   string
	WebZeroRTT   bool
	WebEvents    int
	WebJSON      string
	WebUnknown   string
	WebOrigins   []string

	TLSClientCAPath string

	PublicAddr        string // host:port
	RaftAddr          string // host:port
	LinkAddr          string
	GossipAddr        string
	GossipAdvertise   string
	Seeds             []string
	Token             string // internal_auth_token
	LinkTLSCertPath   string
	LinkTLSKeyPath    string
	LinkTLSCAPath     string
	Bootstrap         bool
	ForceBootstrap    bool
	GroupCount        int
	LogCount          int
	Segments          int // routing_prefix_segments
	Algorithm         string
	ReplicationFactor int
	StabilityWindow   time.Duration
	EvictionWindow    time.Duration
	LeaderBalance     time.Duration
	MaxReconciles     int

	MaxInflight    int
	MaxQueued      int
	MaxConcurrent  int // requests of one connection
	RequestTimeout time.Duration
	EventBuffer    int
	DiskReserve    uint64 // bytes

	ElectionMin      time.Duration
	ElectionMax      time.Duration
	Heartbeat        time.Duration
	SnapshotEntries  int
	KeepEntries      int
	SnapshotMaxBytes uint64
	RaftInflight     int
	GroupGCInterval  time.Duration
	GroupGCBatch     int

	LogLevel string
	LogFile  string

	// What Load found out; empty for a Config that was made by hand.
	set      map[string]string // keys that were given, and where
	ignored  []string          // keys that have no meaning here
	unknown  []string          // environment variables that name no key
	fileName string
}

// DefaultConfig is the configuration of a daemon that is told nothing.
func DefaultConfig() Config {
	var c Config
	for i := range keys {
		if err := keys[i].assign(&c, value{text: keys[i].def, from: "default"}); err != nil {
			panic("daemon: the table of keys has a default that breaks its own rule: " + err.Error())
		}
	}
	return c
}

// given says whether a key was set to something by somebody.
func (c *Config) given(name string) bool {
	if _, ok := c.set[name]; ok {
		return true
	}
	k := keyNamed(name)
	return k.show(c) != k.show(&defaults)
}

// resolved is the configuration with what follows from --dev and from other keys.
func (c Config) resolved() Config {
	if c.Dev {
		c.Bootstrap = true
		if !c.given("data_dir") {
			c.DataDir = devDataDir
		}
		if !c.given("log_count") {
			c.LogCount = devLogCount
		}
		if !c.given("web_listen") {
			c.WebListen = devWeb
		}
		if !c.given("h3_listen") {
			c.H3Listen = devWeb
		}
		if !c.given("raft_addr") {
			c.RaftAddr = "localhost:0" // nobody is told, and several may run on a host
		}
	}
	c.LogCount = min(c.LogCount, c.GroupCount)
	return c
}

const (
	// devDataDir is where --dev keeps its state.
	devDataDir = "./pathlockd-data"
	// devLogCount is for one node with few clients: fewer logs make bigger batches.
	devLogCount = 4
	// devWeb is where --dev serves HTTP: TCP and UDP have ports of their own.
	devWeb = "127.0.0.1:50443"
)

// groups is the configuration of the node inside, which clients reach at native.
func (c *Config) groups(native string) groups.Config {
	algorithm, _ := wire.ParseAlgorithm(c.Algorithm)
	return groups.Config{
		DataDir: c.DataDir, NodeID: c.NodeID, RaftAddr: c.RaftAddr, NativeAddr: native,
		GroupCount: c.GroupCount, LogCount: c.LogCount, Segments: c.Segments, Algorithm: algorithm,
		ReplicationFactor: c.ReplicationFactor, Bootstrap: c.Bootstrap,
		MaxInflight: c.MaxInflight, MaxQueued: c.MaxQueued, EventBuffer: c.EventBuffer,
		RequestTimeout: c.RequestTimeout,
		ElectionMin:    c.ElectionMin, Heartbeat: c.Heartbeat,
		SnapshotLog: uint64(c.SnapshotEntries), KeepEntries: uint64(c.KeepEntries),
		DiskReserve: c.DiskReserve,

		Token: gossip.Token(c.Token), Seeds: c.Seeds, ForceBootstrap: c.ForceBootstrap,
		GossipAddr: c.GossipAddr, GossipAdvertise: c.GossipAdvertise, LinkAddr: c.LinkAddr,
		StabilityWindow: c.StabilityWindow, EvictionWindow: c.EvictionWindow, LeaderBalance: c.LeaderBalance,
		MaxReconciles: c.MaxReconciles, OneHost: onLoopback(c.GossipAddr),
		Given: c.fixedGiven(),
	}
}

// fixedGiven names the settings that are fixed when a cluster is founded and were
// given.
func (c *Config) fixedGiven() (names []string) {
	for _, name := range []string{"group_count", "log_count", "routing_prefix_segments", "default_lock_algorithm",
		"replication_factor"} {
		if c.given(name) {
			names = append(names, name)
		}
	}
	return names
}

// onLoopback says that nobody but processes of this host can reach an address.
func onLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// loop is the configuration of the native server.
func (c *Config) loop() loop.Options {
	return loop.Options{
		Version: Version(),
		// More could not be repeated safely: a session's last answers are kept, and
		// no more of them than that (groups/replica/session.go).
		InFlight:      min(c.MaxConcurrent, groups.MaxWindow),
		RepeatMillis:  groups.RepeatMillis,
		Answers:       groups.MaxWindow,
		RequestMillis: uint64(c.RequestTimeout.Milliseconds()),
		GroupInFlight: uint64(c.MaxInflight),
		Connections:   c.shares(openFiles()).native,
	}
}
