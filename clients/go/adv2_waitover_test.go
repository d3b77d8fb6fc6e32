package pathlockd

import (
	"errors"
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv2WaitOver: a waiting acquire whose time in the queue is over surely got nothing, as the
// server says by its cause. The client says that nobody knows.
func TestAdv2WaitOver(t *testing.T) {
	t.Parallel()
	ctx := within(t, patience)
	a, b := dial(t, server(t)), dial(t, server(t))
	p := path(t, "/a/b")
	l, err := a.Lock(ctx, p)
	mustLock(t, l, err)
	res, err := b.Acquire(ctx, &wire.Request{
		Owner: t.Name(), TTLMillis: 60_000, Locks: []wire.LockRequest{{Path: p}}, Flags: wire.FlagWait, QueueTTLMillis: 300,
	})
	if !errors.Is(err, ErrDeadlineExceeded) {
		t.Fatalf("%v, %v", res, err)
	}
	var refused *Error
	if !errors.As(err, &refused) || refused.Cause != wire.CauseWaitOver {
		t.Errorf("the refusal is %+v, want cause %d", refused, wire.CauseWaitOver)
	}
	if errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("%v: is said to be of unknown outcome", err)
	}
	must(t, l.Unlock())
}
