package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// writeConfig makes a configuration file.
func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pathlockd.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPrecedence(t *testing.T) {
	file := writeConfig(t, "log_count = 2\ngroup_count = 32\nevent_buffer = 7\n")
	c, err := sources{
		file:  file,
		env:   []string{"PATHLOCKD_LOG_COUNT=3", "PATHLOCKD_GROUP_COUNT=33", "PATHLOCKD_EVENT_BUFFER=", "HOME=/x"},
		flags: []flagged{{"log_count", "4"}},
	}.load()
	if err != nil {
		t.Fatal(err)
	}
	if c.LogCount != 4 || c.GroupCount != 33 || c.EventBuffer != 7 || c.MaxInflight != 1024 {
		t.Errorf("log_count %d, group_count %d, event_buffer %d, max_inflight_per_group %d: want the flag's 4, the "+
			"environment's 33, the file's 7, the default 1024",
			c.LogCount, c.GroupCount, c.EventBuffer, c.MaxInflight)
	}
	if c.set["log_count"] != "--log_count" || c.set["group_count"] != "PATHLOCKD_GROUP_COUNT" ||
		c.set["event_buffer"] != file+":3" {
		t.Errorf("sources: %v", c.set)
	}
}

func TestConfigFileFromEnvironment(t *testing.T) {
	file := writeConfig(t, "log_count = 2")
	c, err := Load("", []string{"PATHLOCKD_CONFIG=" + file})
	if err != nil || c.LogCount != 2 {
		t.Errorf("log_count %d, %v", c.LogCount, err)
	}
	if len(c.unknown) > 0 {
		t.Errorf("unknown: %v", c.unknown)
	}
	c, err = Load(writeConfig(t, "log_count = 5"), []string{"PATHLOCKD_CONFIG=" + file})
	if err != nil || c.LogCount != 5 {
		t.Errorf("--config over PATHLOCKD_CONFIG: log_count %d, %v", c.LogCount, err)
	}
	if _, err = Load("", []string{"PATHLOCKD_CONFIG=/no/such.toml"}); err == nil ||
		!strings.Contains(err.Error(), "PATHLOCKD_CONFIG: open /no/such.toml") {
		t.Errorf("missing file: %v", err)
	}
}

func TestFileTypes(t *testing.T) {
	c, err := Load(writeConfig(t, `
# a comment
node_id = "n-3"
seed_nodes = ["a:1", "b:2"]
internal_auth_token = "0123456789abcdef0123456789abcdef"
bootstrap = true
request_timeout_ms = 5_000
disk_reserve_bytes = "1GiB"
raft_snapshot_max_bytes = 1024
raft_addr = "http://10.0.0.7:50052"
native_listen = ""
native_unix = "/run/p.sock"
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.NodeID != "n-3" || !slices.Equal(c.Seeds, []string{"a:1", "b:2"}) || !c.Bootstrap ||
		c.RequestTimeout != 5*time.Second ||
		c.DiskReserve != 1<<30 || c.RaftAddr != "10.0.0.7:50052" || c.NativeListen != "" {
		t.Errorf("%+v", c)
	}
}

func TestFileErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"\nlog_count = 0", `log_count = 0 (FILE:2): must be a whole number from 1 to 1022`},
		{`log_count = "4"`, `log_count = "4" (FILE:1): must be a whole number from 1 to 1022, without quotes`},
		{`node_id = 7`, `node_id = "7" (FILE:1): must be 1 to 255 letters, digits, dots, dashes or underscores that end in a digit, such as pathlockd-0 (a TOML string)`},
		{`log_count = 4.0`, `log_count = 4 (FILE:1): must be a whole number from 1 to 1022 (a TOML integer)`},
		{`bootstrap = "true"`, `bootstrap = "true" (FILE:1): must be true or false, without quotes`},
		{`seed_nodes = "a:1"`, `seed_nodes = "a:1" (FILE:1): must be a list of host:port (a TOML array)`},
		{`seed_nodes = [1]`, `FILE:1: seed_nodes: must be a list of strings, and 1 is none`},
		{`seed_nodes = ["a"]`, `seed_nodes = ["a"] (FILE:1): must be a list of host:port`},
		{"# x\n\ngrop_count = 4", `FILE:3: grop_count is no configuration key: did you mean group_count?`},
		{"frobnicate = 4", `FILE:1: frobnicate is no configuration key (pathlockd --help lists them)`},
		{"[raft]\nx = 4", `FILE:1: [raft]: there are no tables in this file, keys stand at its top`},
		{"log.level = 4", `FILE:1: log.level is no configuration key: did you mean log_level?`},
		{"log_count = 4\nlog_count = 5", `FILE:2:1: key log_count is already defined`},
		{"log_count = ", `FILE:1:12: `},
		{"group_count = 0\nlog_count = 0", "group_count = 0 (FILE:1): must be a whole number from 1 to " +
			"65533\nlog_count = 0 (FILE:2): must be a whole number from 1 to 1022"},
	} {
		file := writeConfig(t, c.text)
		_, err := Load(file, nil)
		want := strings.ReplaceAll(c.want, "FILE", file)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q:\n have %v\n want %s", c.text, err, want)
		}
	}
}

func TestBetweenKeys(t *testing.T) {
	for _, c := range []struct{ env, want string }{
		{"RAFT_ELECTION_TIMEOUT_MIN_MS=3001",
			"raft_election_timeout_min_ms = 3001: must be at most raft_election_timeout_max_ms, which is 3000"},
		{"RAFT_HEARTBEAT_INTERVAL_MS=1500", "raft_heartbeat_interval_ms = 1500: must be below " +
			"raft_election_timeout_min_ms, which is 1500"},
		{"TLS_CERT_PATH=c.pem", "tls_cert_path and tls_key_path: must be given both or neither"},
		{"NATIVE_LISTEN=off LISTEN=off", "native_listen, native_unix, listen, web_listen and h3_listen are all off: " +
			"no client could reach the node; set one of them"},
		{"WEB_LISTEN=127.0.0.1:50051 H3_LISTEN=127.0.0.1:50051",
			"listen and web_listen are both 127.0.0.1:50051: must differ"},
		{"NATIVE_LISTEN=localhost:50052", "native_listen and raft_addr are both localhost:50052: must differ"},
		{"WEB_CORS_ORIGINS=https://a.example,*",
			"web_cors_origins = https://a.example,*: * stands for every origin: give it alone, or leave it out"},
		{"SEED_NODES=a:1", "seed_nodes: nodes that have peers need internal_auth_token, the same random one for all " +
			"of them (openssl rand -hex 32)"},
		{"LINK_TLS_CERT_PATH=c.pem LINK_TLS_KEY_PATH=k.pem",
			"link_tls_cert_path, link_tls_key_path and link_tls_ca_path: must be given all or none"},
		{"LINK_ADDR=localhost:50052", "raft_addr and link_addr are both localhost:50052: must differ"},
		{"INTERNAL_AUTH_TOKEN=0123456789abcdef0123456789abcdef DEV=1 SEED_NODES=a:1",
			"dev and seed_nodes: --dev founds a cluster of one node, which joins no other; leave one of them out"},
	} {
		var env []string
		for _, e := range strings.Fields(c.env) {
			env = append(env, envPrefix+e)
		}
		if _, err := Load("", env); err == nil || err.Error() != c.want {
			t.Errorf("%s:\n have %v\n want %s", c.env, err, c.want)
		}
	}
}

func TestNotices(t *testing.T) {
	load := func(file string, env ...string) Config {
		t.Helper()
		if file != "" {
			file = writeConfig(t, file)
		}
		c, err := Load(file, env)
		if err != nil {
			t.Fatal(err)
		}
		c.fileName = file
		return c
	}
	for _, c := range []struct {
		cfg      Config
		warnings []string
	}{
		{cfg: DefaultConfig()},
		{cfg: load("log_count = 4\nweb_zero_rtt = true\nseed_nodes = []\nweb_listen = \"off\"")},
		{cfg: load("", "PATHLOCKD_LISTEN=127.0.0.1:50051", "PATHLOCKD_TLS_CERT_PATH=c", "PATHLOCKD_TLS_KEY_PATH=k")},
		{cfg: load("", "PATHLOCKD_INTERNAL_AUTH_TOKEN="+strings.Repeat("s", 40),
			"PATHLOCKD_SEED_NODES=127.0.0.1:1,localhost:2")},
		{cfg: load("gossip_addr = \"0.0.0.0:7946\"", "PATHLOCKD_INTERNAL_AUTH_TOKEN="+strings.Repeat("s", 40),
			"PATHLOCKD_SEED_NODES=a:1,b:2"), warnings: []string{
			"raft_addr = localhost:50052 is for this host alone, and the seed b:2 is on another: set raft_addr to a " +
				"name or address of this host"}},
		{cfg: load("rocksdb_block_cache_mb = 64\ngc_compact_interval_secs = 3\ngroup_gc_batch = 5\n[[peers]]\nid = "+
			"3\naddr = \"x\"\n",
			"PATHLOCKD_GOSSIP_FANOUT=3", "PATHLOCKD_GROUP_GC_EXTRA=x", "PATHLOCKD_PEERS=a,b"), warnings: []string{
			"these keys have no meaning here and are ignored: gc_compact_interval_secs, gossip_fanout, " +
				"group_gc_batch, group_gc_extra, peers, rocksdb_block_cache_mb"}},
		{cfg: load("", "PATHLOCKD_LISEN=1", "PATHLOCKD_SERVICE_HOST=1"), warnings: []string{
			"these environment variables name no configuration key: PATHLOCKD_LISEN (did you mean " +
				"PATHLOCKD_LISTEN?), PATHLOCKD_SERVICE_HOST"}},
		{cfg: load("raft_election_timeout_max_ms = 4000"), warnings: []string{
			"raft_election_timeout_max_ms = 4000: elections start after 1500 to 3000 ms, once to twice " +
				"raft_election_timeout_min_ms"}},
	} {
		warnings := c.cfg.notices()
		if !slices.Equal(warnings, c.warnings) {
			t.Errorf("warnings\n have %q\n want %q", warnings, c.warnings)
		}
	}
}

func TestDevDefaults(t *testing.T) {
	c := DefaultConfig()
	c.Dev = true
	if r := c.resolved(); !r.Bootstrap || r.DataDir != "./pathlockd-data" || r.LogCount != 4 {
		t.Errorf("dev: bootstrap %v, data_dir %s, log_count %d", r.Bootstrap, r.DataDir, r.LogCount)
	}
	// What is said counts, also when it is the default.
	c, err := Load("", []string{"PATHLOCKD_DEV=true", "PATHLOCKD_LOG_COUNT=16",
		"PATHLOCKD_DATA_DIR=/var/lib/pathlockd"})
	if err != nil {
		t.Fatal(err)
	}
	if r := c.resolved(); r.DataDir != "/var/lib/pathlockd" || r.LogCount != 16 {
		t.Errorf("dev with both given: data_dir %s, log_count %d", r.DataDir, r.LogCount)
	}
	c = DefaultConfig()
	c.GroupCount = 3
	if r := c.resolved(); r.LogCount != 3 {
		t.Errorf("log_count %d above group_count 3", r.LogCount)
	}
}

func TestToldAddr(t *testing.T) {
	for _, c := range []struct{ listen, public, want string }{
		{"127.0.0.1:5", "h:1", "127.0.0.1:5"},
		{"0.0.0.0:5", "h:1", "h:5"},
		{":5", "h:1", "h:5"},
		{"[::]:5", "h:1", "h:5"},
		{"", "h:1", ""},
	} {
		if got := toldAddr(c.listen, c.public); got != c.want {
			t.Errorf("toldAddr(%q, %q) = %q, want %q", c.listen, c.public, got, c.want)
		}
	}
}
