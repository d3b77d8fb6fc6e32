package compat_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pathlockd/pathlockd/compat"
	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
	"github.com/pathlockd/pathlockd/wire"
)

// full is a handler that refuses some releases, as one whose table of requests under way is full does.
type full struct {
	wire.Handler
	left atomic.Int32 // to be refused
}

func (h *full) Serve(calls []*wire.Call) {
	for i, c := range calls {
		if c.Op == wire.OpRelease && h.left.Add(-1) >= 0 {
			c.Res.Fail(wire.Errorf(wire.Unavailable,
				"1024 requests of this group are under way (max_inflight_per_group)"))
			c.To.Reply(c)
			continue
		}
		h.Handler.Serve(calls[i : i+1])
	}
}

// TestGrantAsAFullNodeStops: a node that stops is asked for the release of what nobody heard of, and has too many
// requests under way just then. It is asked again while it is there, as it is while it does not stop: what is granted
// to a call that has ended is taken back (decision 0025), and not held for its whole TTL.
func TestGrantAsAFullNodeStops(t *testing.T) {
	node := shared.get(t)
	const owner, path = "leaving-full", "grpc:/leaving-full/x"
	x := &crossing{Handler: node, owner: owner, kept: make(chan struct{}, 1)}
	h := &full{Handler: x}
	h.left.Store(2)
	svc := compat.NewService(h, compat.Options{})
	_, addr := serve(t, compat.ServerOptions{}, 0)
	other, _ := client(t, addr)
	t.Cleanup(func() {
		x.let()
		if _, err := other.ForceRelease(context.Background(), &pb.ForceReleaseRequest{VictimId: owner}); err != nil {
			t.Error(err)
		}
		tidy(t, node)
	})
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	req := acquire(owner, path)
	req.TtlMs = 3_600_000
	ended := make(chan error, 1)
	go func() {
		_, err := svc.Acquire(ctx, req)
		ended <- err
	}()
	<-x.kept // it is granted, and its answer is on its way
	svc.Leave()
	cancel()
	if err := <-ended; status.Code(err) != codes.Canceled {
		t.Errorf("the call ended with %v", err)
	}
	x.let()
	soon, stop := context.WithTimeout(within(t), 5*time.Second)
	defer stop()
	res, err := other.AcquireWait(soon, acquire("b", path))
	if err != nil || res.Status != pb.AcquireStatus_ACQUIRE_STATUS_OK {
		t.Errorf("what nobody knows of is held: %v, %v", res, err)
	}
	mustRelease(t, other, "b", path)
}
