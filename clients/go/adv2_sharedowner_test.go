package pathlockd

import (
	"testing"
	"time"
)

// TestAdv2KilledOwnerOfTwoClients: two clients use one owner. What was taken away from it is
// lost to the client that had it, also when the other one has taken something else in the
// namespace since, so that a renewal finds a lease. It is believed in for good, while somebody
// else has it.
func TestAdv2KilledOwnerOfTwoClients(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	ctx := within(t, patience)
	first, second, other := dial(t, server(t)), dial(t, server(t)), dial(t, server(t))
	p, q := path(t, "/a/p"), path(t, "/a/q")
	owner := Owner(t.Name())
	held, err := first.Lock(ctx, p, owner, TTL(ttl))
	mustLock(t, held, err)
	must(t, other.ForceRelease(ctx, t.Name(), "")) // in the first second: nobody is told yet
	more, err := second.Lock(ctx, q, owner, TTL(ttl))
	mustLock(t, more, err)
	taken, err := other.TryLock(ctx, p, TTL(ttl))
	mustLock(t, taken, err)
	for end := time.Now().Add(4 * ttl); time.Now().Before(end); {
		if held.Err() != nil {
			return // as it should be
		}
		time.Sleep(50 * time.Millisecond)
	}
	if held.Err() == nil && taken.Err() == nil {
		t.Fatalf("after four times the TTL two owners believe in %s: %q with token %d (until %v from now) and %q with token %d",
			p, held.Owner(), held.Token(), time.Until(held.Deadline()).Round(time.Millisecond), taken.Owner(), taken.Token())
	}
}
