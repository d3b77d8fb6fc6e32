package daemon

import (
	"fmt"
	"strings"
)

// sections lists the table's sections in order.
func sections() (list []string) {
	for i := range keys {
		if n := len(list); n == 0 || list[n-1] != keys[i].section {
			list = append(list, keys[i].section)
		}
	}
	return list
}

// note is what a key's row says of this build.
func (k *key) note() string {
	if k.state == ignored {
		return "Ignored: " + k.why + "."
	}
	return ""
}

// defaultShown is the default as it would be written.
func (k *key) defaultShown() string {
	switch {
	case k.def == "" && k.kind == kList:
		return "[]"
	case k.def == "":
		return "none"
	}
	return k.def
}

const helpHead = `pathlockd is a lock server: hierarchical path locks, replicated and durable.

  pathlockd --dev                     a durable single node in ./pathlockd-data
  pathlockd --config pathlockd.toml   as the file says
  pathlockd --health-check            is it healthy? exit code 0 or 1

A key is set in a TOML file (key = value), by PATHLOCKD_<KEY> in the environment, or by
--key=value; each overrides the one before. Lists are comma-separated outside the file.
docs/configuration.md tells each key's rule, and why some are ignored.

Flags:
  --config FILE                     configuration file (or PATHLOCKD_CONFIG)
  --health-check [--addr ADDR]      ask the node for its health, or the one at ADDR: host:port or
                                    unix:PATH (native protocol), or a URL with grpc, grpcs, https
                                    or h3, such as grpc://127.0.0.1:50051
  --version                         version, commit, Go version
  --print-config-reference          docs/configuration.md, made from this build
  --help                            this text

Exit codes: 0 stopped as asked; 1 the start or the run failed; 2 the command line is not
understood; 3 storage failed, or the disk is full (acknowledged state is safe).
`

// help is what --help prints.
func help() string {
	var b strings.Builder
	b.WriteString(helpHead)
	for _, section := range sections() {
		fmt.Fprintf(&b, "\n%s:\n", section)
		for i := range keys {
			k := &keys[i]
			if k.section != section {
				continue
			}
			fmt.Fprintf(&b, "  --%s (%s)%s\n", k.name, k.defaultShown(), [...]string{
				ignored: "  [ignored]",
			}[k.state])
			for _, line := range wrap(k.help, 84) {
				fmt.Fprintf(&b, "      %s\n", line)
			}
		}
	}
	return b.String()
}

// wrap breaks text into lines of at most width bytes.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}

const referenceHead = `# Configuration

<!-- Made from the table of keys by "go generate ./cmd/daemon"; do not edit. -->

Nothing has to be configured: ` + "`pathlockd --dev`" + ` runs a durable single node on loopback. For
anything else a key is set in one of three ways, each overriding the one before:

1. in a TOML file named by ` + "`--config FILE`" + ` or ` + "`PATHLOCKD_CONFIG`" + `, at its top: ` + "`log_count = 4`" + `
2. in the environment: ` + "`PATHLOCKD_LOG_COUNT=4`" + ` (an empty variable is as good as none)
3. as a flag: ` + "`--log_count=4`" + ` (` + "`--log-count=4`" + ` is the same)

Outside the file, lists are comma-separated. Bytes may be written with KiB, MiB or GiB (in the
file as a string). A value that breaks its rule, or a key that is not known, fails the start with
a message that names key, value and rule. Unknown ` + "`PATHLOCKD_*`" + ` variables are only warned about.

*Ignored* keys, and ` + "`rocksdb_*`" + `, other ` + "`gossip_*`" + `,
` + "`gc_compact_interval_secs`" + `, other ` + "`group_gc_*`" + ` and ` + "`peers`" + `, tuned other software: a file that has them
starts, with one warning that lists them.

` + "```toml" + `
# pathlockd.toml: a node that clients of other hosts reach
node_id       = "pathlockd-0"
data_dir      = "/var/lib/pathlockd"
bootstrap     = true
native_listen = "0.0.0.0:50050"
public_addr   = "locks.example.com:50051"
` + "```" + `
`

// Reference is docs/configuration.md.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	for _, section := range sections() {
		fmt.Fprintf(&b, "\n## %s\n\n| key | default | must be | |\n|---|---|---|---|\n", section)
		for i := range keys {
			k := &keys[i]
			if k.section != section {
				continue
			}
			text := k.help
			if n := k.note(); n != "" {
				text += " *" + n + "*"
			}
			shown := "`" + k.defaultShown() + "`"
			if k.def == "" {
				shown = k.defaultShown()
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.name, shown, k.rule(), text)
		}
	}
	b.WriteString(referenceTail)
	return b.String()
}

const referenceTail = `
Between keys: ` + "`raft_election_timeout_min_ms`" + ` is at most ` + "`raft_election_timeout_max_ms`" + `;
` + "`raft_heartbeat_interval_ms`" + ` is below ` + "`raft_election_timeout_min_ms`" + `; ` + "`tls_cert_path`" + ` and
` + "`tls_key_path`" + ` go together; addresses differ, and one interface is on.

## Exit codes

| code | |
|---|---|
| 0 | stopped as asked (SIGTERM, SIGINT), after a drain; or healthy |
| 1 | the start or the run failed, or a second signal cut the drain short; or not healthy |
| 2 | the command line is not understood; also what a crash exits with, such as a replicated log that cannot be written: the last lines say why |
| 3 | storage failed, or the disk was full at a start; acknowledged state is safe: fix the cause and start again |
`
