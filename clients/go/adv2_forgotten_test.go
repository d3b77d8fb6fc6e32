package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups"
)

// TestAdv2UnlockAfterALongOutage: an outage lasts longer than servers remember a session. Unlock
// of a lock that was lost to it gives back what the server still holds, as after any shorter
// one: the token and the owner of the lock are known. Not so: it stays for its TTL.
func TestAdv2UnlockAfterALongOutage(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	c := dial(t, n.addr, WithGrace(2*time.Second))
	p := path(t, "/a/b")
	l, err := c.Lock(context.Background(), p, TTL(time.Hour))
	mustLock(t, l, err)
	n.stop(0)
	down := time.Now()
	lostBy(t, l, ErrUncertain)
	time.Sleep(groups.RepeatMillis*time.Millisecond - time.Since(down))
	n.start(t)
	other := dial(t, n.addr)
	ctx := within(t, patience)
	must(t, c.Ping(ctx))
	if i, err := other.InspectPath(ctx, p); err != nil || i.WriteOwner != l.Owner() {
		t.Skipf("the lock did not outlive the server: %+v, %v", i, err)
	}
	_ = l.Unlock()
	soon, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	next, err := other.Lock(soon, p)
	if err != nil {
		d, _ := other.Describe(ctx, p, 0)
		t.Fatalf("10 s after its Unlock the lock is held for %v more by %q: %v",
			time.Duration(d.Holders[0].ExpiresInMillis)*time.Millisecond, d.Holders[0].Owner, err)
	}
	must(t, next.Unlock())
}
