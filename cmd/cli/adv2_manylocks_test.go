package cli

import (
	"fmt"
	"strings"
	"testing"
)

// TestAdv2AcquireOfManyPaths: an acquire that waited and was granted says so, however long a
// listing of what it got is. It says that it failed, and the locks stay for their TTL.
func TestAdv2AcquireOfManyPaths(t *testing.T) {
	t.Parallel()
	con := newConsole(t)
	path := func(i int) string { return fmt.Sprintf("manypaths:/a/%d", i) }
	con.run(ExitOK, "acquire", path(0), "--owner", "other", "--ttl", "1h")
	args := []string{"acquire", "--ttl", "30m", "--wait", "1m", "--label", "why=" + strings.Repeat("y", 3500)}
	for i := range 1500 {
		args = append(args, path(i))
	}
	ended, _ := con.background(args...)
	con.waiters(path(0), 1)
	con.run(ExitOK, "release", path(0), "--owner", "other")
	r := <-ended
	if h := con.holder(path(1499)); r.code != ExitOK && h != "" {
		t.Errorf("exit code %d: %.200s; and its new owner %q, which it told nobody, holds all for half an hour", r.code, r.stderr, h)
	}
}
