package compat_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/pathlockd/pathlockd/compat"
	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
)

// TestOpenCalls: acquires that wait, more than a channel may have, leave room for the
// renewal of the lease that they wait for, and for its release.
func TestOpenCalls(t *testing.T) {
	const most, asked = 1024, 1400
	svc, addr := serve(t, compat.ServerOptions{}, 0)
	c, conn := client(t, addr)
	mustAcquire(t, c, "a", "grpc:/open/x")
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	ends := make(chan error, asked)
	var granted sync.Map
	for i := range asked {
		go func() {
			owner := fmt.Sprintf("open-%d", i)
			_, err := c.AcquireWait(ctx, acquire(owner, "grpc:/open/x"))
			if err == nil {
				granted.Store(owner, true)
			}
			ends <- err
		}()
	}
	t.Cleanup(func() {
		granted.Range(func(owner, _ any) bool {
			_, err := svc.ReleaseAll(context.Background(), &pb.ReleaseAllRequest{OwnerId: owner.(string)})
			return err == nil
		})
	})
	waiting := func() uint64 {
		d, err := svc.DescribePath(within(t), &pb.DescribePathRequest{Path: "grpc:/open/x"})
		if err != nil {
			t.Fatal(err)
		}
		return d.WaitersTotal
	}
	// All that may wait do, or all streams are taken.
	poll(t, func() bool {
		n := waiting()
		return n == most && len(ends) == asked-most || n == 1280
	}, func() string { return "the acquires neither wait nor are refused" })
	soon, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	if res, err := c.Renew(soon, &pb.RenewRequest{OwnerId: "a", TtlMs: 60_000}); err != nil ||
		res.Status != pb.RenewStatus_RENEW_STATUS_OK {
		t.Fatalf("the renewal: %v, %v", res, err)
	}
	for range asked - most {
		want(t, <-ends, codes.ResourceExhausted, "1024 calls that stay open")
	}
	// So are all calls that stay open, and no others.
	events, err := c.Subscribe(ctx, &pb.SubscribeRequest{OwnerId: "a"})
	if err == nil {
		_, err = events.Recv()
	}
	want(t, err, codes.ResourceExhausted, "1024 calls that stay open")
	watch, err := grpc_health_v1.NewHealthClient(conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err == nil {
		_, err = watch.Recv()
	}
	want(t, err, codes.ResourceExhausted, "1024 calls that stay open")
	stream, err := c.AcquireStream(ctx)
	if err == nil {
		err = stream.Send(acquire("c", "grpc:/open/y"))
	}
	if err == nil {
		_, err = stream.CloseAndRecv()
	}
	if err != nil {
		t.Errorf("a bulk acquire: %v", err)
	}
	mustRelease(t, c, "a", "grpc:/open/x")
	if err := <-ends; err != nil {
		t.Errorf("who waited longest: %v", err)
	}
	// A call that ended leaves room for another.
	poll(t, func() bool {
		_, err := c.AcquireWait(ctx, acquire("d", "grpc:/open/z"))
		if err != nil && status.Code(err) != codes.ResourceExhausted {
			t.Fatal(err)
		}
		return err == nil
	}, func() string { return "no call may stay open any more" })
	cancel()
	for range most - 1 {
		<-ends
	}
	poll(t, func() bool { return waiting() == 0 }, func() string { return "some wait for ever" })
}

// TestKeptTurns: a lease is renewed and given back while as many requests are under way
// as may be, and more wait their turn. These are refused in time, so that they do not
// keep the connection's streams.
func TestKeptTurns(t *testing.T) {
	const most, calls = 2, 20
	g := &gate{shared.get(t), make(chan struct{}, calls), make(chan struct{})}
	svc := compat.NewService(g, compat.Options{})
	srv := compat.NewServer(svc, compat.ServerOptions{InFlight: most, TurnWithin: 100 * time.Millisecond, Log: quiet})
	addr, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	c, _ := client(t, addr)
	mustAcquire(t, c, "a", "grpc:/kept/x", "grpc:/kept/y")
	done := make(chan error, calls)
	for range calls {
		go func() {
			_, err := c.InspectPath(within(t), &pb.InspectPathRequest{Path: "grpc:/kept/x"})
			done <- err
		}()
	}
	for range most {
		<-g.arrived
	}
	soon, stop := context.WithTimeout(within(t), 20*time.Second)
	defer stop()
	if res, err := c.Renew(soon, &pb.RenewRequest{OwnerId: "a", TtlMs: 60_000}); err != nil ||
		res.Status != pb.RenewStatus_RENEW_STATUS_OK {
		t.Errorf("the renewal: %v, %v", res, err)
	}
	if _, err := c.Release(soon, release("a", "grpc:/kept/x")); err != nil {
		t.Errorf("the release: %v", err)
	}
	if _, err := c.ReleaseAll(soon, &pb.ReleaseAllRequest{OwnerId: "a"}); err != nil {
		t.Errorf("the release of all: %v", err)
	}
	for range calls - most {
		select {
		case err := <-done:
			want(t, err, codes.Unavailable, "max_concurrent_requests_per_connection", "2 requests under way",
				"not carried out")
		case <-soon.Done():
			t.Fatal("a request waits for its turn without end")
		}
	}
	close(g.open)
	for range most {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
