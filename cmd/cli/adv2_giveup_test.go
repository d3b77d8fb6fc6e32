package cli

import (
	"context"
	"testing"
	"time"

	pathlockd "github.com/pathlockd/pathlockd/clients/go"
)

// TestAdv2GivingUpTakesALock: who gives a wait up gives back what the wait may have been granted,
// and not what another process of the owner has taken meanwhile and been told to hold.
func TestAdv2GivingUpTakesALock(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"acquire", "run"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			con := newConsole(t)
			owner := "both-" + how
			held, free, more := "giveup-"+how+":/a/held", "giveup-"+how+":/a/free", "giveup-"+how+":/a/more"
			con.run(ExitOK, "acquire", held, "--owner", "other", "--ttl", "1h")
			args := []string{how, held, free, "--owner", owner, "--wait", "2s"}
			if how == "run" {
				args = append(args, "--", "true")
			}
			ended, _ := con.background(args...)
			con.waiters(held, 1)
			c, err := pathlockd.Dial(t.Context(), sharedDaemon(t).Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			first, err := c.TryLock(t.Context(), more, pathlockd.Owner(owner), pathlockd.TTL(3*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			lock, err := c.TryLock(t.Context(), free, pathlockd.Owner(owner), pathlockd.TTL(3*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			if r := <-ended; r.code != ExitTimeout {
				t.Fatalf("exit code %d, want %d: %s", r.code, ExitTimeout, r.stderr)
			}
			if h := con.holder(free); h != owner {
				t.Errorf("the process that was told that it did not get %s has released it for the one that has it: held by %q", free, h)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			other, err := c.Lock(ctx, free)
			if err != nil {
				return // as it should be
			}
			time.Sleep(7 * time.Second)
			if lock.Err() == nil && other.Err() == nil {
				t.Errorf("7 s later %q with token %d and %q with token %d believe in %s", lock.Owner(), lock.Token(), other.Owner(), other.Token(), free)
			}
			_ = first.Unlock()
		})
	}
}
