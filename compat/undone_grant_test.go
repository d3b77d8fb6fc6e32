package compat_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pathlockd/pathlockd/compat"
	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
	"github.com/pathlockd/pathlockd/wire"
)

// slowLink is a handler whose way to the leader is slow while it is told to be: answers to acquires of an owner, and
// releases of that, are kept.
type slowLink struct {
	crossing
	slow bool
}

func (x *slowLink) Serve(calls []*wire.Call) {
	for i, c := range calls {
		switch {
		case !x.slow || c.Req.Owner != x.owner:
		case c.Op == wire.OpAcquire:
			c.To = &slowed{c.To, x}
		case c.Op == wire.OpRelease:
			x.keep(func() { x.Handler.Serve([]*wire.Call{c}) })
			continue
		}
		x.Handler.Serve(calls[i : i+1])
	}
}

type slowed struct {
	wire.Replier
	of *slowLink
}

func (r *slowed) Reply(c *wire.Call) { r.of.keep(func() { r.Replier.Reply(c) }) }

// TestUndoneGrant: a client polls for a path, is QUEUED, and subscribes to GRANT. It polls again, which takes too
// long for it. Meanwhile the path is free, and it is told GRANT: it renews, and holds the lock. What is taken back of
// the call that took too long must leave that.
func TestUndoneGrant(t *testing.T) {
	node := shared.get(t)
	const owner, path = "undone", "grpc:/undone/x"
	x := &slowLink{crossing: crossing{Handler: node, owner: owner, kept: make(chan struct{}, 4)}}
	svc := compat.NewService(x, compat.Options{})
	t.Cleanup(func() {
		x.slow = false
		x.let()
		tidy(t, node)
		if _, err := svc.ForceRelease(context.Background(), &pb.ForceReleaseRequest{VictimId: owner}); err != nil {
			t.Error(err)
		}
	})
	_, addr := serve(t, compat.ServerOptions{}, 0)
	other, _ := client(t, addr)
	events, err := other.Subscribe(within(t), &pb.SubscribeRequest{OwnerId: owner})
	if err == nil {
		_, err = events.Header()
	}
	if err != nil {
		t.Fatal(err)
	}
	mustAcquire(t, other, "a", path)
	req := acquire(owner, path)
	req.TtlMs = 3_600_000
	if res, err := svc.Acquire(within(t), req); err != nil || res.Status != pb.AcquireStatus_ACQUIRE_STATUS_QUEUED {
		t.Fatalf("%v, %v", res, err)
	}
	x.slow = true
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	ended := make(chan error, 1)
	go func() { _, err := svc.Acquire(ctx, req); ended <- err }()
	<-x.kept // its answer
	cancel()
	if err := <-ended; status.Code(err) != codes.Canceled {
		t.Fatal(err)
	}
	<-x.kept // the release
	mustRelease(t, other, "a", path)
	if e, err := events.Recv(); err != nil || e.Type != pb.EventType_EVENT_TYPE_GRANT {
		t.Fatalf("%v, %v", e, err)
	}
	if res, err := other.Renew(within(t), &pb.RenewRequest{OwnerId: owner, TtlMs: 3_600_000}); err != nil ||
		res.Status != pb.RenewStatus_RENEW_STATUS_OK {
		t.Fatalf("%v, %v", res, err)
	}
	x.slow = false
	x.let()
	soon, stop := context.WithTimeout(within(t), 3*time.Second)
	defer stop()
	if res, err := other.AcquireWait(soon, acquire("b", path)); err == nil &&
		res.Status == pb.AcquireStatus_ACQUIRE_STATUS_OK {
		t.Errorf("%q was told GRANT and renewed for an hour, and %q has the lock now, token %d", owner, "b",
			res.FencingToken)
	}
}
