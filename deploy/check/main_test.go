// Package check holds the tests of what deploy/ ships, against the schemas of those
// who read it. It is a module of its own: what it needs for that is in no binary, and
// no one who builds pathlockd has to fetch it.
package check

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// daemon is a pathlockd, built from the tree that is tested.
var daemon string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "pathlockd-deploy")
	if err != nil {
		panic(err)
	}
	daemon = filepath.Join(dir, "pathlockd")
	build := exec.Command("go", "build", "-C", "../..", "-o", daemon, "./cmd/pathlockd")
	build.Stderr = os.Stderr
	code := 1
	if err = build.Run(); err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, "build pathlockd:", err)
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

const secret = "0123456789abcdef0123456789abcdef"

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// accepts has the daemon read a configuration, from its environment or a file. It asks
// a port that nobody listens on for its health, which it does after that.
func accepts(t *testing.T, env map[string]string, args ...string) error {
	t.Helper()
	cmd := exec.Command(daemon, append([]string{"--health-check", "--addr=127.0.0.1:1"}, args...)...)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		cmd.Env = append(cmd.Env, name+"="+env[name])
	}
	out, err := cmd.CombinedOutput()
	if err == nil || strings.HasPrefix(string(out), "unreachable: 127.0.0.1:1") {
		return nil
	}
	return fmt.Errorf("%w: %s", err, out)
}

// keys are the configuration keys that the daemon knows.
func keys(t *testing.T) string {
	t.Helper()
	out, err := exec.Command(daemon, "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// checkEnvironment has the daemon read an environment, all of whose variables are to
// be its own.
func checkEnvironment(t *testing.T, what string, env map[string]string) {
	t.Helper()
	known := keys(t)
	for name := range env {
		key, ours := strings.CutPrefix(name, "PATHLOCKD_")
		if ours && !strings.Contains(known, "--"+strings.ToLower(key)+" ") {
			t.Errorf("%s: %s names no key", what, name)
		}
	}
	if err := accepts(t, env); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// TestDaemonRefuses: what these tests rely on: the daemon does not take what is wrong.
func TestDaemonRefuses(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"no address":    {"PATHLOCKD_RAFT_ADDR": "nowhere"},
		"a short token": {"PATHLOCKD_INTERNAL_AUTH_TOKEN": "short"},
		"a bad node id": {"PATHLOCKD_NODE_ID": "pathlockd"},
	} {
		if accepts(t, env) == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if err := accepts(t, nil); err != nil {
		t.Errorf("nothing at all is refused: %v", err)
	}
}
