package daemon

import (
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/wire"
)

// Sections of the table, in the order of --help and the reference.
const (
	sNode    = "Node"
	sFaces   = "Interfaces"
	sCluster = "Cluster"
	sLimits  = "Limits"
	sRaft    = "Replication"
	sLogs    = "Logs"
)

const (
	millis  = time.Millisecond
	seconds = time.Second
	day     = 86_400
)

// pre is what a node has that nothing is configured of: the one table of these values (contract.md section 14).
var pre = groups.Config{}.Defaults()

func num(n int) string { return strconv.Itoa(n) }

func span(d, unit time.Duration) string { return strconv.FormatInt(int64(d/unit), 10) }

// keys is the table. Order is that of the reference.
var keys = []key{
	{name: "node_id", section: sNode, kind: kText, def: pre.NodeID, field: func(c *Config) any { return &c.NodeID },
		must:  "1 to 255 letters, digits, dots, dashes or underscores that end in a digit, such as pathlockd-0",
		check: isNodeID,
		help:  "The node's name in its cluster. It stands in the data directory and cannot change."},
	{name: "data_dir", section: sNode, kind: kText, def: "/var/lib/pathlockd",
		field: func(c *Config) any { return &c.DataDir },
		must:  "a directory", check: notEmpty,
		help: "Where everything durable is kept. With --dev the default is ./pathlockd-data."},
	{name: "dev", section: sNode, kind: kBool, def: "false", field: func(c *Config) any { return &c.Dev },
		help: "Found or resume a durable single-node cluster on loopback: implies bootstrap, and data_dir " +
			"./pathlockd-data, log_count 4 and any free raft port where those are not given."},
	{name: "disk_reserve_bytes", section: sNode, kind: kBytes, def: "134217728", most: math.MaxInt64,
		field: func(c *Config) any { return &c.DiskReserve },
		help: "Free space of data_dir below which the node refuses what makes its state grow; reads and releases " +
			"go on. 0: never."},

	{name: "native_listen", section: sFaces, kind: kAddr, def: "127.0.0.1:50050", optional: true,
		field: func(c *Config) any { return &c.NativeListen },
		check: isAddr, help: "Native protocol over TCP. When it is not configured and its port is taken, it is off, " +
			"with a warning. Port 0: any free one."},
	{name: "native_unix", section: sFaces, kind: kText, def: "", optional: true,
		field: func(c *Config) any { return &c.NativeUnix },
		must:  "a path of at most 107 bytes", check: func(s string) bool { return len(s) <= 107 },
		help: "Native protocol on a Unix socket. Who may connect is decided by the file's directory and the umask."},
	{name: "listen", section: sFaces, kind: kAddr, def: "127.0.0.1:50051", optional: true,
		field: func(c *Config) any { return &c.Listen },
		check: isAddr, help: "gRPC, package pathlockd.v1. Plain text unless listen_tls is set. Port 0: any free one."},
	{name: "listen_tls", section: sFaces, kind: kBool, def: "false", field: func(c *Config) any { return &c.ListenTLS },
		help: "Serve gRPC over TLS, with the certificate of the web interfaces."},
	{name: "web_listen", section: sFaces, kind: kAddr, def: "", optional: true,
		field: func(c *Config) any { return &c.WebListen },
		check: isAddr, help: "JSON and event streams over HTTP/1.1 and HTTP/2, with TLS. With --dev the default is " +
			"127.0.0.1:50443."},
	{name: "h3_listen", section: sFaces, kind: kAddr, def: "", optional: true,
		field: func(c *Config) any { return &c.H3Listen },
		check: isAddr, help: "The same over HTTP/3 (UDP). With --dev the default is 127.0.0.1:50443."},
	{name: "tls_cert_path", section: sFaces, kind: kText, def: "", field: func(c *Config) any { return &c.TLSCertPath },
		must: "a file", help: "Certificate chain in PEM. Goes with tls_key_path. A changed file is used for new " +
			"connections. Neither: a self-signed certificate for localhost, kept as dev-cert.pem in data_dir."},
	{name: "tls_key_path", section: sFaces, kind: kText, def: "", field: func(c *Config) any { return &c.TLSKeyPath },
		must: "a file", help: "Private key in PEM. Goes with tls_cert_path."},
	{name: "tls_client_ca_path", section: sFaces, kind: kText, def: "",
		field: func(c *Config) any { return &c.TLSClientCAPath },
		must:  "a file", help: "Certificates in PEM: clients of every interface with TLS must show one that " +
			"they signed."},
	{name: "web_json", section: sFaces, kind: kChoice, def: "proto3", choices: []string{"proto3", "plain"},
		field: func(c *Config) any { return &c.WebJSON },
		help:  "How JSON responses spell enums and 64-bit numbers: names and strings (proto3), or numbers (plain)."},
	{name: "web_unknown_fields", section: sFaces, kind: kChoice, def: "refuse", choices: []string{"refuse", "ignore"},
		field: func(c *Config) any { return &c.WebUnknown },
		help: "JSON requests with a field that there is not: refuse them, or ignore the field, for clients that " +
			"send more than a request has."},
	{name: "web_zero_rtt", section: sFaces, kind: kBool, def: "true",
		field: func(c *Config) any { return &c.WebZeroRTT },
		help:  "Let HTTP/3 clients send reads before the handshake is over."},
	{name: "web_event_log_capacity", section: sFaces, kind: kInt, def: "1024", least: 1, most: 1 << 20,
		field: func(c *Config) any { return &c.WebEvents },
		help:  "Events kept for each owner, for event streams that reconnect."},
	{name: "web_cors_origins", section: sFaces, kind: kList, def: "",
		field: func(c *Config) any { return &c.WebOrigins },
		must:  "a list of origins such as https://app.example.com, or *", check: isOrigin,
		help: "Web pages that may call the web interfaces from a browser. None: no other page may. *: any."},

	{name: "bootstrap", section: sCluster, kind: kBool, def: "false",
		field: func(c *Config) any { return &c.Bootstrap },
		help:  "Found a cluster when data_dir is empty. A data_dir that is in use resumes, whatever this says."},
	{name: "force_bootstrap", section: sCluster, kind: kBool, def: "false",
		field: func(c *Config) any { return &c.ForceBootstrap },
		help:  "Found a cluster even though none of the seeds answers."},
	{name: "seed_nodes", section: sCluster, kind: kList, def: "", field: func(c *Config) any { return &c.Seeds },
		must: "a list of host:port", check: isPeerAddr, help: "Gossip addresses of nodes to join."},
	{name: "public_addr", section: sCluster, kind: kURL, def: "http://localhost:50051",
		field: func(c *Config) any { return &c.PublicAddr },
		help: "Where clients reach this node. Its host is also told for the native protocol when native_listen " +
			"names none."},
	{name: "raft_addr", section: sCluster, kind: kURL, def: "http://" + pre.RaftAddr,
		field: func(c *Config) any { return &c.RaftAddr },
		help: "Where the nodes of a cluster reach this one to replicate; it listens there. The host is a name or " +
			"an IPv4 address. Port 0, alone: any free one."},
	{name: "link_addr", section: sCluster, kind: kAddr, def: "", optional: true,
		field: func(c *Config) any { return &c.LinkAddr },
		help:  "Where other nodes forward requests to this one. Without it: a free port of the host of raft_addr."},
	{name: "gossip_addr", section: sCluster, kind: kAddr, def: "127.0.0.1:7946",
		field: func(c *Config) any { return &c.GossipAddr },
		help:  "Where the nodes of a cluster find each other (TCP and UDP; TCP alone with link_tls_cert_path)."},
	{name: "gossip_advertise_addr", section: sCluster, kind: kAddr, def: "", optional: true,
		field: func(c *Config) any { return &c.GossipAdvertise },
		help:  "The gossip address that others are told, where it differs."},
	{name: "internal_auth_token", section: sCluster, kind: kText, def: "", optional: true, secret: true,
		field: func(c *Config) any { return &c.Token },
		must:  "at least 32 bytes", check: func(s string) bool { return len(s) >= 32 },
		help: "Shared secret of a cluster's nodes. Required only with peers."},
	{name: "link_tls_cert_path", section: sCluster, kind: kText, def: "", optional: true,
		field: func(c *Config) any { return &c.LinkTLSCertPath },
		must:  "a file", help: "Certificate chain in PEM that this node shows to the others, for raft, forwarding " +
			"and gossip, besides internal_auth_token. Its uses must include server and client authentication, its " +
			"names the host of raft_addr. Goes with the two keys below, on all nodes or on none. A new pair in the " +
			"place of the old one is used from the next connection on."},
	{name: "link_tls_key_path", section: sCluster, kind: kText, def: "", optional: true,
		field: func(c *Config) any { return &c.LinkTLSKeyPath },
		must:  "a file", help: "Its private key in PEM."},
	{name: "link_tls_ca_path", section: sCluster, kind: kText, def: "", optional: true,
		field: func(c *Config) any { return &c.LinkTLSCAPath },
		must:  "a file", help: "Certificates in PEM that sign those of the nodes, and of nobody else. Read at start."},
	{name: "group_count", section: sCluster, kind: kInt, def: num(pre.GroupCount), least: 1, most: 65_533,
		field: func(c *Config) any { return &c.GroupCount },
		help:  "Virtual groups that namespaces are spread over. Fixed when the cluster is founded."},
	// An event cursor names every log, the system's, and the cluster.
	{name: "log_count", section: sCluster, kind: kInt, def: num(pre.LogCount), least: 1, most: wire.MaxPositions - 2,
		field: func(c *Config) any { return &c.LogCount },
		help: "Replicated logs that the groups live in; above group_count means group_count. Fixed when the " +
			"cluster is founded. With --dev the default is 4."},
	{name: "routing_prefix_segments", section: sCluster, kind: kInt, def: "1", least: 0, most: wire.MaxPathSegments,
		field: func(c *Config) any { return &c.Segments },
		help:  "Path segments that make a namespace, under no policy. Fixed when the cluster is founded."},
	{name: "default_lock_algorithm", section: sCluster, kind: kChoice, def: "recursive_rw",
		choices: wire.AlgorithmNames(), field: func(c *Config) any { return &c.Algorithm },
		help: "Rules of namespaces that have no policy. Fixed when the cluster is founded."},
	{name: "replication_factor", section: sCluster, kind: kInt, def: num(pre.ReplicationFactor), least: 1, most: 15,
		odd: true, field: func(c *Config) any { return &c.ReplicationFactor },
		help: "Copies of each log, as far as there are nodes. Fixed when the cluster is founded."},
	{name: "stability_window_secs", section: sCluster, kind: kSpan, unit: seconds,
		def: span(pre.StabilityWindow, seconds), least: 0, most: day,
		field: func(c *Config) any { return &c.StabilityWindow },
		help:  "How long a node is a member before logs are placed on it."},
	{name: "eviction_window_secs", section: sCluster, kind: kSpan, unit: seconds,
		def: span(pre.EvictionWindow, seconds), least: 0, most: 7 * day,
		field: func(c *Config) any { return &c.EvictionWindow },
		help:  "How long a node is away before its logs are placed on others."},
	{name: "leader_balance_interval_secs", section: sCluster, kind: kSpan, unit: seconds,
		def: span(pre.LeaderBalance, seconds), least: 1, most: day,
		field: func(c *Config) any { return &c.LeaderBalance },
		help:  "How often leaderships are handed to the nodes they belong on."},
	{name: "max_concurrent_reconciles", section: sCluster, kind: kInt, def: num(pre.MaxReconciles), least: 1,
		most: 1024, field: func(c *Config) any { return &c.MaxReconciles },
		help: "Logs whose members one node changes at a time."},

	{name: "max_inflight_per_group", section: sLimits, kind: kInt, def: num(pre.MaxInflight), least: 1, most: 1 << 20,
		field: func(c *Config) any { return &c.MaxInflight },
		help:  "Requests of a group under way at once; more are refused with UNAVAILABLE."},
	{name: "max_queued_paths_per_group", section: sLimits, kind: kInt, def: num(pre.MaxQueued), least: 1, most: 1 << 24,
		field: func(c *Config) any { return &c.MaxQueued },
		help: "Paths waited for in a group, a quarter of it by one owner, and by one session (with 1 to 3 nobody " +
			"may wait); more are refused with RESOURCE_EXHAUSTED. A request counts for at least one for each 4096 " +
			"bytes of all paths in it, also those that it says it holds or is to release, each with 64 bytes " +
			"beside. All nodes go by the value of the one that leads the log: a change counts once that node was " +
			"restarted, or another one leads."},
	{name: "max_concurrent_requests_per_connection", section: sLimits, kind: kInt, def: "256", least: 1, most: 65_536,
		field: func(c *Config) any { return &c.MaxConcurrent },
		help: "Requests of a connection not yet answered, waiting acquires aside. The native protocol takes " +
			"1024 at most."},
	{name: "request_timeout_ms", section: sLimits, kind: kSpan, unit: millis, def: span(pre.RequestTimeout, millis),
		least: 100, most: 120_000, field: func(c *Config) any { return &c.RequestTimeout },
		help: "How long a request may take while there is no leader. Well below half of the 300 s for which keys " +
			"are kept: who is slow is to be over while what was done for others with its key is known."},
	{name: "event_buffer", section: sLimits, kind: kInt, def: num(pre.EventBuffer), least: 1, most: 1 << 22,
		field: func(c *Config) any { return &c.EventBuffer },
		help:  "Events of each log kept for subscribers that reconnect."},

	{name: "raft_election_timeout_min_ms", section: sRaft, kind: kSpan, unit: millis,
		def: span(pre.ElectionMin, millis), least: 150, most: 600_000,
		field: func(c *Config) any { return &c.ElectionMin },
		help: "Silence of a leader after which another is elected, at the earliest. In steps of 50, from 1000 on " +
			"of 100. A node that is alone does not wait for it."},
	{name: "raft_election_timeout_max_ms", section: sRaft, kind: kSpan, unit: millis,
		def: span(2*pre.ElectionMin, millis), least: 150, most: 1_200_000,
		field: func(c *Config) any { return &c.ElectionMax },
		help:  "The same at the latest. It is always twice the earliest; another value is warned about."},
	{name: "raft_heartbeat_interval_ms", section: sRaft, kind: kSpan, unit: millis, def: span(pre.Heartbeat, millis),
		least: 50, most: 600_000, field: func(c *Config) any { return &c.Heartbeat },
		help: "How often a leader shows that it lives. At most a fifth of the election timeout is used."},
	{name: "raft_snapshot_interval_entries", section: sRaft, kind: kInt, def: num(int(pre.SnapshotLog)), least: 1,
		most: 1 << 30, field: func(c *Config) any { return &c.SnapshotEntries },
		help: "Entries of a log between two snapshots."},
	{name: "raft_snapshot_min_log_entries", section: sRaft, kind: kInt, def: num(int(pre.KeepEntries)), least: 1,
		most: 1 << 30, field: func(c *Config) any { return &c.KeepEntries },
		help: "Entries kept behind a snapshot, for replicas that are a little late."},
	{name: "raft_snapshot_max_bytes", section: sRaft, kind: kBytes, def: "536870912", least: 1, most: math.MaxInt64,
		field: func(c *Config) any { return &c.SnapshotMaxBytes },
		state: ignored, why: "snapshots are streamed and have no limit", help: "Largest snapshot."},
	{name: "raft_max_inflight", section: sRaft, kind: kInt, def: "256", least: 1, most: 1 << 20,
		field: func(c *Config) any { return &c.RaftInflight },
		state: ignored, why: "the window of a log is fixed at what measured best",
		help: "Entries of a log under way at once."},
	{name: "group_gc_interval_secs", section: sRaft, kind: kSpan, unit: seconds, def: "1", most: day,
		field: func(c *Config) any { return &c.GroupGCInterval },
		state: ignored, why: "leases end on time and nothing sweeps", help: "How often expired state was swept."},
	{name: "group_gc_batch", section: sRaft, kind: kInt, def: "1024", most: 1 << 30,
		field: func(c *Config) any { return &c.GroupGCBatch },
		state: ignored, why: "leases end on time and nothing sweeps", help: "How much was swept at once."},

	{name: "log_level", section: sLogs, kind: kChoice, def: "info", choices: []string{"debug", "info", "warn", "error"},
		field: func(c *Config) any { return &c.LogLevel },
		help:  "Least important messages that are logged."},
	{name: "log_file", section: sLogs, kind: kText, def: "", optional: true,
		field: func(c *Config) any { return &c.LogFile },
		must:  "a file", help: "Log to this file instead of standard error; SIGHUP opens it anew."},
}

// isNodeID says that s ends in a digit and has nothing in it that would need
// quoting somewhere.
func isNodeID(s string) bool {
	if s == "" || len(s) > 255 || s[len(s)-1] < '0' || s[len(s)-1] > '9' {
		return false
	}
	for _, r := range s {
		word := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !word && !strings.ContainsRune("._-", r) {
			return false
		}
	}
	return true
}

// isOrigin says that s is what a browser sends as a page's origin, or "*".
func isOrigin(s string) bool {
	if s == "*" {
		return true
	}
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && s == u.Scheme+"://"+u.Host
}

func notEmpty(s string) bool { return s != "" }
