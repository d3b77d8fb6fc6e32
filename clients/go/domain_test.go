package pathlockd

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestBareHandlerNamespace: what is locked in a bare handler that was made a namespace stands on the
// lease in that one alone. As a domain its name stands for all namespaces of the handler.
func TestBareHandlerNamespace(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	ctx := within(t, patience)
	c, other := dial(t, server(t)), dial(t, server(t))
	handler := t.Name()
	must(t, other.SetNamespacePolicy(ctx, handler, wire.PointWrite, ""))
	must(t, other.SetNamespacePolicy(ctx, handler+":/n", wire.RecursiveRW, ""))
	owner := "me-" + handler
	bare, err := c.Lock(ctx, handler+":/a/b", Owner(owner), TTL(ttl))
	mustLock(t, bare, err)
	nested, err := c.Lock(ctx, handler+":/n/c", Owner(owner), TTL(ttl))
	mustLock(t, nested, err)
	if bare.Namespace() != handler || nested.Namespace() != handler+":/n" {
		t.Fatalf("namespaces %q and %q", bare.Namespace(), nested.Namespace())
	}
	if err := other.SetNamespacePolicy(ctx, handler+":/", wire.RecursiveRW,
		""); codeOf(err) != wire.FailedPrecondition {
		t.Fatalf("where its root path lies was changed while a lock is held there: %v", err)
	}
	subscribed(t, c, bare)
	for range 3 { // what is asked when events begin to be told is answered
		last := bare.Deadline()
		eventually(t, "a renewal", func() bool { return bare.Deadline().After(last) || bare.Err() != nil })
	}
	must(t, bare.Err())
	// Another client gives it back, which is told to nobody.
	must(t, other.Release(ctx, owner, []wire.ReleaseRequest{{Path: handler + ":/a/b"}}, false, ""))
	lostBy(t, bare, ErrExpired)
	must(t, nested.Err())
}
