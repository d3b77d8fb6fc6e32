package daemon

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pathlockd/pathlockd/internal/near"
)

// keyCases is, for each key, values it takes and values it does not, as the
// environment gives them, with what the message says of the rule.
var keyCases = map[string]struct {
	good []string
	bad  []string
	rule string
}{
	"node_id": {[]string{"pathlockd-0", "n7", "a.b_c-12"}, []string{"pathlockd", "7x", "a b1", "a/1"},
		"must be 1 to 255 letters, digits, dots, dashes or underscores that end in a digit"},
	"data_dir": {[]string{"/tmp/x", "rel"}, nil, ""},
	"dev":      {[]string{"true", "false", "1", "no"}, []string{"maybe", "2"}, "must be true or false"},
	"disk_reserve_bytes": {[]string{"0", "134217728", "1GiB", "5 MiB"}, []string{"-1", "1GB", "x", "9999999999GiB"},
		"must be a number of bytes, 0 or more, or such as 512MiB"},

	"native_listen": {[]string{"127.0.0.1:50050", ":0", "[::1]:7", "off", "localhost:80"},
		[]string{"50050", "localhost", "a:b", "h:70000", "h:"}, `must be host:port, such as 127.0.0.1:50050, or "off"`},
	"native_unix": {[]string{"/run/pathlockd.sock", "off"}, []string{strings.Repeat("x", 108)},
		"must be a path of at most 107 bytes"},
	"listen": {[]string{"0.0.0.0:1", "off"}, []string{"1"},
		`must be host:port, such as 127.0.0.1:50050, or "off"`},
	"web_listen":         {[]string{":8443", "off"}, []string{"8443"}, "must be host:port"},
	"h3_listen":          {[]string{":8443", "off"}, []string{"8443"}, "must be host:port"},
	"listen_tls":         {[]string{"true"}, []string{"tls"}, "must be true or false"},
	"tls_client_ca_path": {[]string{"ca.pem"}, nil, ""},
	"link_tls_cert_path": {[]string{"c.pem", "off"}, nil, ""},
	"link_tls_key_path":  {[]string{"k.pem", "off"}, nil, ""},
	"link_tls_ca_path":   {[]string{"ca.pem", "off"}, nil, ""},
	"web_cors_origins": {[]string{"*", "https://a.example", "http://localhost:3000, https://b.example:8443"},
		[]string{"a.example", "https://a.example/", "ftp://x"},
		"must be a list of origins such as https://app.example.com, or *"},
	"tls_cert_path": {[]string{"c.pem"}, nil, ""},
	"tls_key_path":  {[]string{"k.pem"}, nil, ""},
	"web_json":      {[]string{"proto3", "plain"}, []string{"Plain", "json"}, "must be one of proto3, plain"},
	"web_unknown_fields": {[]string{"refuse", "ignore"}, []string{"Ignore", "allow"},
		"must be one of refuse, ignore"},
	"web_zero_rtt":           {[]string{"false", "on"}, []string{"-"}, "must be true or false"},
	"web_event_log_capacity": {[]string{"1", "4096"}, []string{"0", "1.5"}, "must be a whole number from 1 to 1048576"},

	"bootstrap":       {[]string{"true"}, []string{"si"}, "must be true or false"},
	"force_bootstrap": {[]string{"true"}, []string{"si"}, "must be true or false"},
	"seed_nodes": {[]string{"a:1", "a:1,b:2", " a:1 , b:2 "}, []string{"a", "a:1,b"},
		"must be a list of host:port"},
	"public_addr": {[]string{"http://h:1", "https://h:1/", "h:1"},
		[]string{"h", "ftp://h:1", "http://h:1/x", "http://u@h:1", ":1"}, "must be http://host:port or host:port"},
	"raft_addr": {[]string{"http://localhost:50052", "10.0.0.1:50052", "h:0"},
		[]string{"http://h", "[::1]:1", "http://h:1?x"}, "must be http://host:port or host:port"},
	"link_addr":             {[]string{"h:1"}, []string{"h"}, "must be host:port"},
	"gossip_addr":           {[]string{"0.0.0.0:7946"}, []string{"0.0.0.0", "off"}, "must be host:port"},
	"gossip_advertise_addr": {[]string{"h:1"}, []string{"h"}, "must be host:port"},
	"internal_auth_token": {[]string{strings.Repeat("t", 32)}, []string{strings.Repeat("t", 31)},
		"(31 bytes) (PATHLOCKD_INTERNAL_AUTH_TOKEN): must be at least 32 bytes"},
	"group_count": {[]string{"1", "65533"}, []string{"0", "65534", "-1", "x"},
		"must be a whole number from 1 to 65533"},
	"log_count": {[]string{"1", "1022"}, []string{"0", "1023"},
		"must be a whole number from 1 to 1022"},
	"routing_prefix_segments": {[]string{"0", "2"}, []string{"-1", "257"}, "must be a whole number from 0 to 256"},
	"default_lock_algorithm": {[]string{"point_rw", "semaphore"}, []string{"RECURSIVE_RW", "mutex"},
		"must be one of recursive_rw, point_rw, recursive_write, point_write, semaphore"},
	"replication_factor": {[]string{"1", "5"}, []string{"0", "2", "17"},
		"must be an odd number from 1 to 15"},
	"stability_window_secs": {[]string{"0", "30"}, []string{"-3"},
		"must be a whole number of seconds from 0 to 86400"},
	"eviction_window_secs": {[]string{"90"}, []string{"1m"},
		"must be a whole number of seconds from 0 to 604800"},
	"leader_balance_interval_secs": {[]string{"1"}, []string{"0"}, "must be a whole number of seconds from 1 to 86400"},
	"max_concurrent_reconciles":    {[]string{"8"}, []string{"0"}, "must be a whole number from 1 to 1024"},

	"max_inflight_per_group": {[]string{"1", "4096"}, []string{"0"},
		"must be a whole number from 1 to 1048576"},
	"max_queued_paths_per_group": {[]string{"1000000"}, []string{"0"},
		"must be a whole number from 1 to 16777216"},
	"max_concurrent_requests_per_connection": {[]string{"1", "5000"}, []string{"0", "65537"},
		"must be a whole number from 1 to 65536"},
	"request_timeout_ms": {[]string{"100", "30000"}, []string{"99", "30s", "0"},
		"must be a whole number of milliseconds from 100 to 120000"},
	"event_buffer": {[]string{"1"}, []string{"0"}, "must be a whole number from 1 to 4194304"},

	"raft_election_timeout_min_ms": {[]string{"1000"}, []string{"149"},
		"must be a whole number of milliseconds from 150 to 600000"},
	"raft_election_timeout_max_ms": {[]string{"4000"}, []string{"x"},
		"must be a whole number of milliseconds from 150 to 1200000"},
	"raft_heartbeat_interval_ms": {[]string{"50", "499"}, []string{"49"},
		"must be a whole number of milliseconds from 50 to 600000"},
	"raft_snapshot_interval_entries": {[]string{"100"}, []string{"0"}, "must be a whole number from 1 to 1073741824"},
	"raft_snapshot_min_log_entries":  {[]string{"100"}, []string{"0"}, "must be a whole number from 1 to 1073741824"},
	"raft_snapshot_max_bytes": {[]string{"1GiB", "5"}, []string{"0"},
		"must be a number of bytes, 1 or more, or such as 512MiB"},
	"raft_max_inflight":      {[]string{"1"}, []string{"0"}, "must be a whole number from 1 to"},
	"group_gc_interval_secs": {[]string{"0", "5"}, []string{"x"}, "must be a whole number of seconds"},
	"group_gc_batch":         {[]string{"0", "5"}, []string{"x"}, "must be a whole number"},

	"log_level": {[]string{"debug", "error"}, []string{"INFO", "trace"}, "must be one of debug, info, warn, error"},
	"log_file":  {[]string{"/tmp/x.log"}, nil, ""},
}

func TestKeys(t *testing.T) {
	for i := range keys {
		k := &keys[i]
		cases, ok := keyCases[k.name]
		if !ok {
			t.Errorf("%s: has no case here", k.name)
			continue
		}
		for _, text := range cases.good {
			c := DefaultConfig()
			if err := k.assign(&c, value{text: text, from: k.variable()}); err != nil {
				t.Errorf("%s takes %q: %v", k.name, text, err)
			}
			again := DefaultConfig()
			if err := k.assign(&again, value{text: k.show(&c), from: "shown"}); err != nil ||
				k.show(&again) != k.show(&c) {
				t.Errorf("%s: %q is shown as %q, which reads as %q (%v)", k.name, text, k.show(&c), k.show(&again), err)
			}
		}
		for _, text := range cases.bad {
			_, err := Load("", []string{k.variable() + "=" + text})
			if err == nil {
				t.Errorf("%s takes %q", k.name, text)
				continue
			}
			msg := err.Error()
			if !strings.HasPrefix(msg, k.name+" = ") || !strings.Contains(msg, k.variable()) ||
				!strings.Contains(msg, cases.rule) {
				t.Errorf("%s = %q: the message is\n  %s\nand should name the key, the variable and\n  %s", k.name, text,
					msg, cases.rule)
			}
			if k.secret == strings.Contains(msg, text) {
				t.Errorf("%s = %q: value shown or not: %s", k.name, text, msg)
			}
		}
	}
}

// TestContractDefaults holds the table against contract.md section 14.
func TestContractDefaults(t *testing.T) {
	want := `listen 127.0.0.1:50051 · native_listen 127.0.0.1:50050 · link_addr – · node_id pathlockd-0 ·
		data_dir /var/lib/pathlockd · public_addr http://localhost:50051 · raft_addr http://localhost:50052 ·
		gossip_addr 127.0.0.1:7946 · gossip_advertise_addr – · seed_nodes – · internal_auth_token – ·
		group_count 256 · routing_prefix_segments 1 · default_lock_algorithm recursive_rw · replication_factor 3 ·
		bootstrap false · force_bootstrap false · max_inflight_per_group 1024 · max_queued_paths_per_group 65536 ·
		log_count 16 · request_timeout_ms 30000 · max_concurrent_requests_per_connection 256 · event_buffer 8192 ·
		raft_election_timeout_min_ms 1500 · raft_election_timeout_max_ms 3000 · raft_heartbeat_interval_ms 500 ·
		raft_snapshot_interval_entries 10000 · raft_snapshot_min_log_entries 5000 · raft_snapshot_max_bytes 536870912 ·
		raft_max_inflight 256 · stability_window_secs 30 · eviction_window_secs 60 · leader_balance_interval_secs 60 ·
		max_concurrent_reconciles 4 · group_gc_interval_secs 1 · group_gc_batch 1024 · log_level info · log_file – ·
		web_listen – · h3_listen – · tls_cert_path – · tls_key_path – · web_zero_rtt true · web_event_log_capacity 1024 ·
		web_json proto3 · web_unknown_fields refuse · listen_tls false · tls_client_ca_path – · web_cors_origins – · link_tls_cert_path – · link_tls_key_path – · link_tls_ca_path – · native_unix – · disk_reserve_bytes 134217728 · dev false`
	var seen []string
	for row := range strings.SplitSeq(want, "·") {
		f := strings.Fields(row)
		k := keyNamed(f[0])
		if k == nil {
			t.Errorf("%s: missing", f[0])
			continue
		}
		if def := strings.Replace(f[1], "–", "", 1); k.def != def {
			t.Errorf("%s: default %q, want %q", f[0], k.def, def)
		}
		seen = append(seen, f[0])
	}
	for _, name := range keyNames() {
		if !slices.Contains(seen, name) {
			t.Errorf("%s: is a key that the contract does not know", name)
		}
	}
}

// TestServedKeysAreRead: a key that no code reads is a bug. Every served key
// changes what the node or its server is made with, or is read by the daemon
// itself.
func TestServedKeysAreRead(t *testing.T) {
	byDaemon := []string{
		"dev", "native_listen", "native_unix", "public_addr", // start.go, config.go
		"listen", "listen_tls", "web_listen", "h3_listen", "web_event_log_capacity", // faces.go
		"tls_cert_path", "tls_key_path", "tls_client_ca_path",
		"link_tls_cert_path", "link_tls_key_path", "link_tls_ca_path", // cluster.go
		"log_level", "log_file", // logs.go
		"raft_election_timeout_max_ms", // load.go
	}
	for i := range keys {
		k := &keys[i]
		if k.state != served || slices.Contains(byDaemon, k.name) {
			continue
		}
		read := false
		for _, text := range append(keyCases[k.name].good, "150") {
			c := DefaultConfig()
			if k.assign(&c, value{text: text}) != nil {
				continue
			}
			d := DefaultConfig()
			read = read || !reflect.DeepEqual(c.groups(""), d.groups("")) || !reflect.DeepEqual(c.loop(), d.loop()) ||
				!reflect.DeepEqual(c.grpc(), d.grpc()) || !reflect.DeepEqual(c.web(), d.web())
		}
		if !read {
			t.Errorf("%s changes nothing", k.name)
		}
	}
}

func TestReferenceIsCurrent(t *testing.T) {
	const path = "../../docs/configuration.md"
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != Reference() {
		t.Errorf("%s is stale: run go generate ./cmd/daemon", path)
	}
}

// TestReferenceExample: the file shown in the reference is one that works.
func TestReferenceExample(t *testing.T) {
	_, rest, _ := strings.Cut(Reference(), "```toml\n")
	text, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the reference has no example")
	}
	c, err := Load(writeConfig(t, text), nil)
	if err != nil {
		t.Fatal(err)
	}
	if warnings := c.notices(); len(warnings) > 0 {
		t.Errorf("%q, %v", warnings, err)
	}
}

func TestHelpNamesEveryKey(t *testing.T) {
	text := help()
	for _, name := range keyNames() {
		if !strings.Contains(text, "--"+name+" ") {
			t.Errorf("--help does not name %s", name)
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		if len(line) > 100 {
			t.Errorf("--help has a line of %d bytes: %s", len(line), line)
		}
	}
}

func TestNearest(t *testing.T) {
	for name, want := range map[string]string{
		"grop_count": "group_count", "lisen": "listen", "datadir": "data_dir", "native": "native_listen",
		"seed": "seed_nodes", "request_timeout": "request_timeout_ms", "zzzzzz": "", "x": "",
	} {
		if got := near.Name(name, keyNames()); got != want {
			t.Errorf("near.Name(%q) = %q, want %q", name, got, want)
		}
	}
}
