package daemon

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/pathlockd/pathlockd/internal/testkit/server"
)

// TestClashEndsTheProcess: a newcomer whose node_id another node has, and keeps, ends with
// the exit code of a failed start and says what to do.
func TestClashEndsTheProcess(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef0123456789abcdef"
	addr := func() string {
		t.Helper()
		a, err := server.FreeAddr()
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	seed := addr()
	node := func(name, gossip string, more ...string) *process {
		dir := t.TempDir()
		return runPathlockd(t, dir, append([]string{
			"--node_id=" + name, "--data_dir=" + filepath.Join(dir, "data"), "--internal_auth_token=" + token,
			"--raft_addr=http://" + addr(), "--gossip_addr=" + gossip, anyNative,
		}, more...)...)
	}
	founder := node("pathlockd-0", seed, "--bootstrap=true")
	founder.ready()
	member := node("pathlockd-1", addr(), "--seed_nodes="+seed)
	member.ready()
	twin := node("pathlockd-1", addr(), "--seed_nodes="+seed)
	if code := twin.exit(); code != ExitFailed {
		t.Errorf("exit code %d, want %d", code, ExitFailed)
	}
	text, _ := twin.logged("stopping: another node has this node_id")["error"].(string)
	for _, want := range []string{"node_id pathlockd-1", "empty its data_dir", "a node_id that nobody has"} {
		if !strings.Contains(text, want) {
			t.Errorf("it says %q, want %q in it", text, want)
		}
	}
}
