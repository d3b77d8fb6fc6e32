package check

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// directives are those of systemd.unit(5), systemd.service(5), systemd.exec(5) and
// systemd.kill(5) that a unit of ours may use, and what their values look like.
var directives = map[string]map[string]string{
	"Unit": {
		"Description": `.+`, "Documentation": `https?://\S+`, "After": `[\w.@-]+(\s[\w.@-]+)*`,
		"Wants":                 `[\w.@-]+(\s[\w.@-]+)*`,
		"StartLimitIntervalSec": `\d+(s|min)`, "StartLimitBurst": `\d+`,
	},
	"Service": {
		"ExecStart": `/\S+( \S+)*`, "ExecReload": `/\S+( \S+)*`, "EnvironmentFile": `-?/\S+`, "User": `[a-z]+`,
		"Group":          `[a-z]+`,
		"StateDirectory": `[a-z]+`, "StateDirectoryMode": `0[0-7]{3}`, "UMask": `0[0-7]{3}`,
		"Restart": `no|on-failure|always`, "RestartSec": `\d+(s|ms)`, "TimeoutStopSec": `\d+s`, "LimitNOFILE": `\d+`,
		"NoNewPrivileges": flag, "ProtectSystem": `strict|full|yes|no`, "ProtectHome": flag,
		"ProtectKernelTunables": flag,
		"ProtectKernelModules":  flag, "ProtectKernelLogs": flag, "ProtectControlGroups": flag, "ProtectClock": flag,
		"ProtectHostname": flag,
		"PrivateTmp":      flag, "PrivateDevices": flag, "LockPersonality": flag, "RestrictNamespaces": flag,
		"RestrictRealtime": flag,
		"RestrictSUIDSGID": flag, "RestrictAddressFamilies": `AF_\w+( AF_\w+)*`, "SystemCallArchitectures": `native`,
		"CapabilityBoundingSet": `(CAP_\w+( CAP_\w+)*)?`,
	},
	"Install": {"WantedBy": `[\w.-]+`},
}

const flag = `yes|no`

// parseUnit reads a unit file by the grammar of systemd.syntax(7), and refuses every
// section, directive and value that directives does not have.
func parseUnit(text string) (map[string]string, error) {
	found, section := make(map[string]string), ""
	for i, line := range strings.Split(text, "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";"):
		case strings.HasPrefix(line, "["):
			section = strings.Trim(line, "[]")
			if directives[section] == nil || line != "["+section+"]" {
				return nil, fmt.Errorf("line %d: no section is called %s", i+1, line)
			}
		default:
			key, value, ok := strings.Cut(line, "=")
			rule, known := directives[section][key]
			switch {
			case !ok || !known:
				return nil, fmt.Errorf("line %d: %q is no directive of [%s]", i+1, line, section)
			case !regexp.MustCompile("^(" + rule + ")$").MatchString(value):
				return nil, fmt.Errorf("line %d: %s=%s: does not look like %s", i+1, key, value, rule)
			}
			if _, twice := found[key]; twice {
				return nil, fmt.Errorf("line %d: %s stands twice", i+1, key)
			}
			found[key] = value
		}
	}
	return found, nil
}

func TestUnit(t *testing.T) {
	const file = "../systemd/pathlockd.service"
	unit, err := parseUnit(read(t, file))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"ExecStart": "/usr/local/bin/pathlockd --config /etc/pathlockd/pathlockd.toml", "StateDirectory": "pathlockd",
		"TimeoutStopSec": "30s",
		"User":           "pathlockd", "WantedBy": "multi-user.target",
	} {
		if unit[key] != want {
			t.Errorf("%s=%s, want %s", key, unit[key], want)
		}
	}
	for _, bad := range []string{"[Servise]\n", "[Service]\nExecStrat=/bin/true\n", "[Service]\nRestart=sometimes\n",
		"ExecStart=/bin/true\n",
		"[Service]\nUser=a\nUser=b\n", "[Service]\nUser\n", "[Unit]\nUser=a\n"} {
		if _, err := parseUnit(bad); err == nil {
			t.Errorf("%q is taken for a unit", bad)
		}
	}
	verifyUnit(t, read(t, file))
}

// verifyUnit asks systemd itself, where it can be had.
func verifyUnit(t *testing.T, text string) {
	t.Helper()
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("there is no systemd-analyze here: the unit was held against our own table alone")
		return
	}
	// It looks for the program, which is not installed here.
	copied := filepath.Join(t.TempDir(), "pathlockd.service")
	if err := os.WriteFile(copied, []byte(strings.Replace(text, "/usr/local/bin/pathlockd", daemon, 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(tool, "verify", "--man=no", copied).CombinedOutput()
	lines := slices.DeleteFunc(strings.Split(string(out), "\n"),
		func(line string) bool { return !strings.Contains(line, "pathlockd") })
	if err != nil || len(lines) > 0 {
		t.Errorf("systemd-analyze verify: %v: %s", err, out)
	}
}

// TestUnitFile: the configuration that goes with the unit is one.
func TestUnitFile(t *testing.T) {
	const file = "../systemd/pathlockd.toml"
	env := map[string]string{"PATHLOCKD_INTERNAL_AUTH_TOKEN": secret}
	if err := accepts(t, env, "--config", file); err != nil {
		t.Error(err)
	}
	broken := filepath.Join(t.TempDir(), "broken.toml")
	if err := os.WriteFile(broken, []byte(read(t, file)+"\nno_such_key = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := accepts(t, env, "--config", broken); err == nil || !strings.Contains(err.Error(), "no_such_key") {
		t.Errorf("an unknown key: %v", err)
	}
}
