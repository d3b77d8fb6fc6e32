package cli

import (
	"context"
	"syscall"
	"testing"
)

// TestInterruptedAcquireLeavesNothing: acquire makes up an owner. Its lock is free, and is granted; the answer does not
// come, and Ctrl-C ends it, or --timeout. Nobody has been told the owner, so nobody could give the lock back: it would
// be held for its TTL. What a wait took that is given up is given back likewise.
func TestInterruptedAcquireLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"interrupted": nil, "timeout": {"--timeout", "2s"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newConsole(t)
			x := "givenup-acquire:/" + name + "/x"
			p := newMutedProxy(t, sharedDaemon(t).Addr(), x)
			far := &console{t, []string{"PATHLOCK_ADDR=" + p.addr}}
			ctx, interrupt := context.WithCancelCause(t.Context())
			ended := make(chan result, 1)
			go func() { ended <- far.do(ctx, append([]string{"acquire", x, "--ttl", "1h"}, args...)...) }()
			until(t, "the grant", func() bool { return c.holder(x) != "" })
			want := ExitUnavailable
			if name == "interrupted" {
				want = exitSignal + int(syscall.SIGINT)
				interrupt(&signalError{syscall.SIGINT})
			}
			if r := <-ended; r.code != want {
				t.Fatalf("exit code %d: %s%s", r.code, r.stdout, r.stderr)
			}
			p.held.Unlock()
			until(t, "that it is given back", func() bool { return c.holder(x) == "" })
			interrupt(nil)
		})
	}
}
