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

// cancels is a handler that tells of each cancel.
type cancels struct {
	wire.Handler
	told chan struct{}
}

func (h *cancels) Cancel(s *wire.Session, id uint64) {
	h.Handler.Cancel(s, id)
	h.told <- struct{}{}
}

// TestGrantToACallThatEndsAsTheNodeStops: the node begins to stop while a call waits, its grant comes
// before its cancel, and its caller goes before the answer. Nobody hears of the grant, so it is taken
// back (decision 0025), as it is while the node does not stop; it is not held for its whole TTL.
func TestGrantToACallThatEndsAsTheNodeStops(t *testing.T) {
	for name, watched := range map[string]bool{"AcquireWait": false, "AcquireWatch": true} {
		t.Run(name, func(t *testing.T) {
			node := shared.get(t)
			owner, path := "leaving", "grpc:/leaving/x"
			x := &crossing{Handler: node, owner: owner, kept: make(chan struct{}, 1)}
			h := &cancels{x, make(chan struct{}, 16)}
			svc := compat.NewService(h, compat.Options{})
			_, addr := serve(t, compat.ServerOptions{}, 0)
			other, _ := client(t, addr)
			t.Cleanup(func() {
				x.let()
				if _, err := other.ForceRelease(context.Background(),
					&pb.ForceReleaseRequest{VictimId: owner}); err != nil {
					t.Error(err)
				}
				tidy(t, node)
			})
			mustAcquire(t, other, "a", path)
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			req := acquire(owner, path)
			req.TtlMs = 3_600_000
			ended := make(chan error, 1)
			go func() {
				if watched {
					ended <- svc.AcquireWatch(req, &watchStream{ctx: ctx})
					return
				}
				_, err := svc.AcquireWait(ctx, req)
				ended <- err
			}()
			waiters(t, other, path, owner)
			mustRelease(t, other, "a", path)
			<-x.kept // it is granted, and its answer is on its way
			left := make(chan struct{})
			go func() {
				svc.Leave()
				close(left)
			}()
			<-h.told
			cancel()
			x.let()
			if err := <-ended; status.Code(err) != codes.Canceled {
				t.Errorf("the call ended with %v", err)
			}
			<-left
			soon, stop := context.WithTimeout(within(t), 5*time.Second)
			defer stop()
			res, err := other.AcquireWait(soon, acquire("b", path))
			if err != nil || res.Status != pb.AcquireStatus_ACQUIRE_STATUS_OK {
				t.Errorf("what nobody knows of is held: %v, %v", res, err)
			}
			mustRelease(t, other, "b", path)
		})
	}
}
