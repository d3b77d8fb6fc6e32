package pathlockd

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv2BareHandlerNamespace: a bare handler that was made a namespace is the domain of the
// renewals of what is locked in it; and to the server it stands for all namespaces of the
// handler. So a lease in another one answers for one that is gone.
func TestAdv2BareHandlerNamespace(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	ctx := within(t, patience)
	c, other := dial(t, server(t)), dial(t, server(t))
	handler := t.Name()
	must(t, other.SetNamespacePolicy(ctx, handler, wire.PointWrite, ""))
	must(t, other.SetNamespacePolicy(ctx, handler+":/n", wire.RecursiveRW, ""))
	owner := Owner("me-" + handler)
	a, err := c.Lock(ctx, handler+":/a/b", owner, TTL(ttl))
	mustLock(t, a, err)
	b, err := c.Lock(ctx, handler+":/n/c", owner, TTL(ttl))
	mustLock(t, b, err)
	if a.Namespace() != handler || b.Namespace() != handler+":/n" {
		t.Fatalf("namespaces %q and %q", a.Namespace(), b.Namespace())
	}
	must(t, other.SetNamespacePolicy(ctx, handler, wire.RecursiveWrite, "")) // clears the one namespace
	taken, err := other.TryLock(ctx, handler+":/a/b", TTL(ttl))
	mustLock(t, taken, err)
	for end := time.Now().Add(4 * ttl); time.Now().Before(end) && a.Err() == nil; {
		time.Sleep(20 * time.Millisecond)
	}
	if a.Err() == nil && taken.Err() == nil {
		t.Fatalf("after four times the TTL two owners believe in %s:/a/b: %q with token %d and %q with token %d",
			handler, a.Owner(), a.Token(), taken.Owner(), taken.Token())
	}
	must(t, b.Err())
}
