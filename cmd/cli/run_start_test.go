package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestFailedStartLeavesOtherLocks: a run whose command cannot be started gives its own lock back, and leaves its
// owner what it had before: like a run whose command ends.
func TestFailedStartLeavesOtherLocks(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	file := filepath.Join(t.TempDir(), "nonsense")
	if err := os.WriteFile(file, []byte("\x00\x01\x02 no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	for owner, run := range map[string]struct {
		code    int
		command string
	}{
		"ended":       {ExitOK, "true"},
		"not-started": {ExitNotRunnable, file},
	} {
		kept := "failedstart:/" + owner + "/kept"
		c.run(ExitOK, "acquire", kept, "--owner", owner, "--ttl", "1h")
		c.run(run.code, "run", "failedstart:/"+owner+"/x", "--owner", owner, "--ttl", "1h", "--", run.command)
		var d described
		c.data(&d, "describe", kept)
		if len(d.Holders) != 1 {
			t.Fatalf("%s: %+v", owner, d)
		}
	}
	time.Sleep(18 * time.Second) // the grace
	for _, owner := range []string{"ended", "not-started"} {
		if h := c.holder("failedstart:/" + owner + "/kept"); h != owner {
			t.Errorf("%s: its lock of an hour is held by %q after the run", owner, h)
		}
	}
}
