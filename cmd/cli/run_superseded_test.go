package cli

import (
	"strings"
	"testing"
	"time"
)

// TestConflictAfterAGrantLeavesOtherLocks: run asks for a lock in the name of an owner that holds another one for an
// hour. It is granted, and told so late; meanwhile another process of the owner gave the path back and a stranger has
// it, so that run asks anew and is refused. The grant had tied the owner's lease to run's connection: that is undone,
// and the lock of an hour stays.
func TestConflictAfterAGrantLeavesOtherLocks(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	const owner, kept, x = "superseded", "superseded:/ns/kept", "superseded:/ns/x"
	p := newMutedProxy(t, sharedDaemon(t).Addr(), x)
	far := &console{t, []string{"PATHLOCK_ADDR=" + p.addr}}
	c.run(ExitOK, "acquire", kept, "--owner", owner, "--ttl", "1h")
	ended := make(chan result, 1)
	go func() {
		ended <- far.do(t.Context(), "run", x, "--owner", owner, "--ttl", "2s", "--no-wait", "--timeout", "40s",
			"--", "true")
	}()
	until(t, "the grant", func() bool { return c.holder(x) == owner })
	c.run(ExitOK, "release", x, "--owner", owner)
	c.run(ExitOK, "acquire", x, "--owner", "stranger", "--ttl", "1h")
	time.Sleep(time.Second) // half of the TTL: what was granted is looked at before it is believed in
	p.held.Unlock()
	r := <-ended
	if r.code != ExitFailed || !strings.Contains(r.stderr, "stranger") {
		t.Fatalf("run was not refused: exit code %d %s%s", r.code, r.stdout, r.stderr)
	}
	// A lease that hangs on the connection, which is gone, has the grace of 15 s.
	until(t, "the lease to be free of the connection", func() bool {
		var d described
		c.data(&d, "describe", kept)
		return len(d.Holders) == 1 && d.Holders[0].ExpiresInMillis > 60_000
	})
	if h := c.holder(kept); h != owner {
		t.Errorf("after a run that took nothing its owner's lock of an hour is held by %q", h)
	}
}
