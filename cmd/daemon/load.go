package daemon

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/pathlockd/pathlockd/internal/near"
)

const (
	envPrefix = "PATHLOCKD_"
	// envConfig names the configuration file.
	envConfig = envPrefix + "CONFIG"
)

// flagged is one key that a flag named, and its value.
type flagged struct{ name, text string }

// sources is where a configuration comes from: defaults < file < environment <
// flags.
type sources struct {
	file  string   // of --config; else the variable PATHLOCKD_CONFIG names one
	env   []string // as os.Environ answers it
	flags []flagged
}

// Load reads the configuration of a process: the file (file, or the one that
// PATHLOCKD_CONFIG names, or none), and an environment as os.Environ answers it.
// The error tells everything that is wrong, one line for each.
func Load(file string, env []string) (Config, error) {
	return sources{file: file, env: env}.load()
}

func (s sources) load() (Config, error) {
	c := DefaultConfig()
	c.set = make(map[string]string)
	var errs []error
	named, fromFile := s.file, "--config"
	for _, e := range s.env {
		if path, ok := strings.CutPrefix(e, envConfig+"="); ok && named == "" && path != "" {
			named, fromFile = path, envConfig
		}
	}
	if named != "" {
		c.fileName = named
		text, err := os.ReadFile(named)
		if err != nil {
			return c, fmt.Errorf("read the configuration named by %s: %w", fromFile, err)
		}
		errs = append(errs, c.takeFile(named, text)...)
	}
	errs = append(errs, c.takeEnv(s.env)...)
	for _, f := range s.flags {
		errs = append(errs, c.take(f.name, value{text: f.text, from: "--" + f.name}))
	}
	if err := errors.Join(errs...); err != nil {
		return c, err
	}
	return c, c.check()
}

// take puts a value given for a known key where it belongs.
func (c *Config) take(name string, v value) error {
	c.set[name] = v.from
	return keyNamed(name).assign(c, v)
}

// takeEnv takes the variables of the environment. An empty one is as good as none.
func (c *Config) takeEnv(env []string) (errs []error) {
	for _, e := range env {
		name, text, _ := strings.Cut(e, "=")
		rest, ours := strings.CutPrefix(name, envPrefix)
		if !ours || text == "" || name == envConfig {
			continue
		}
		known := strings.ToLower(rest)
		switch {
		case keyNamed(known) != nil && name == keyNamed(known).variable():
			errs = append(errs, c.take(known, value{text: text, from: name}))
		case tunedOthers(known):
			c.ignored = append(c.ignored, known)
		default:
			c.unknown = append(c.unknown, name)
		}
	}
	return errs
}

// check holds keys against each other. Each alone keeps its rule already, if it
// came through Load.
func (c *Config) check() error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.ElectionMin > c.ElectionMax {
		refuse("raft_election_timeout_min_ms = %d: must be at most raft_election_timeout_max_ms, which is %d",
			c.ElectionMin.Milliseconds(), c.ElectionMax.Milliseconds())
	}
	if c.Heartbeat >= c.ElectionMin {
		refuse("raft_heartbeat_interval_ms = %d: must be below raft_election_timeout_min_ms, which is %d",
			c.Heartbeat.Milliseconds(), c.ElectionMin.Milliseconds())
	}
	if (c.TLSCertPath == "") != (c.TLSKeyPath == "") {
		refuse("tls_cert_path and tls_key_path: must be given both or neither")
	}
	errs = append(errs, c.checkFaces()...)
	errs = append(errs, c.checkCluster()...)
	if c.Dev && len(c.Seeds) > 0 {
		refuse("dev and seed_nodes: --dev founds a cluster of one node, which joins no other; leave one of them out")
	}
	return errors.Join(errs...)
}

// checkFaces holds the addresses against each other.
func (c *Config) checkFaces() (errs []error) {
	taken := make(map[string]string)
	some := c.NativeUnix != ""
	for _, k := range []struct{ name, addr string }{
		{"native_listen", c.NativeListen}, {"listen", c.Listen}, {"web_listen", c.WebListen}, {"raft_addr", c.RaftAddr},
		{"link_addr", c.LinkAddr},
	} {
		some = some || k.addr != "" && k.name != "raft_addr" && k.name != "link_addr"
		if k.addr == "" || strings.HasSuffix(k.addr, ":0") {
			continue
		}
		if other, is := taken[k.addr]; is {
			errs = append(errs, fmt.Errorf("%s and %s are both %s: must differ", other, k.name, k.addr))
		}
		taken[k.addr] = k.name
	}
	if len(c.WebOrigins) > 1 && slices.Contains(c.WebOrigins, "*") {
		errs = append(errs, fmt.Errorf("web_cors_origins = %s: * stands for every origin: give it alone, or "+
			"leave it out", strings.Join(c.WebOrigins, ",")))
	}
	if !some && c.H3Listen == "" {
		errs = append(errs, errors.New("native_listen, native_unix, listen, web_listen and h3_listen are all off: "+
			"no client could reach the node; set one of them"))
	}
	return errs
}

// checkAll is check for a configuration that was made by hand: every value goes
// through its key's rule first.
func (c *Config) checkAll() error {
	var errs []error
	for i := range keys {
		k := &keys[i]
		v := value{text: k.show(c), from: "Config"}
		if k.kind == kList {
			v.list, v.toml = *k.field(c).(*[]string), "array"
		}
		scratch := *c
		errs = append(errs, k.assign(&scratch, v))
	}
	return errors.Join(append(errs, c.check())...)
}

// notices is what whoever wrote the configuration must be told: what of it has no
// effect.
func (c *Config) notices() (warnings []string) {
	ignoredHere := slices.Clone(c.ignored)
	for i := range keys {
		k := &keys[i]
		_, set := c.set[k.name]
		changed := k.show(c) != k.show(&defaults)
		if k.state == ignored && (set || changed) {
			ignoredHere = append(ignoredHere, k.name)
		}
	}
	if len(ignoredHere) > 0 {
		slices.Sort(ignoredHere)
		warnings = append(warnings, "these keys have no meaning here and are ignored: "+
			strings.Join(slices.Compact(ignoredHere), ", "))
	}
	if len(c.unknown) > 0 {
		slices.Sort(c.unknown)
		warnings = append(warnings, "these environment variables name no configuration key: "+
			strings.Join(c.suggested(), ", "))
	}
	if c.ElectionMax != 2*c.ElectionMin && c.given("raft_election_timeout_max_ms") {
		warnings = append(warnings, fmt.Sprintf("raft_election_timeout_max_ms = %d: elections start after %d to %d "+
			"ms, once to twice raft_election_timeout_min_ms",
			c.ElectionMax.Milliseconds(), c.ElectionMin.Milliseconds(), 2*c.ElectionMin.Milliseconds()))
	}
	return append(warnings, c.unreachable()...)
}

// suggested is the unknown variables, each with the one that is likely meant.
func (c *Config) suggested() (list []string) {
	for _, name := range c.unknown {
		if meant := near.Name(strings.ToLower(strings.TrimPrefix(name, envPrefix)), keyNames()); meant != "" {
			name += " (did you mean " + keyNamed(meant).variable() + "?)"
		}
		list = append(list, name)
	}
	return list
}

// defaults is the configuration that nobody said anything about.
var defaults = DefaultConfig()
