package compat_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pathlockd/pathlockd/compat"
	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
)

// TestRequestsNotAnsweredAreBounded: clients send requests of up to 4 MiB while nothing is answered, as
// when a log has no leader. What the server keeps of them is bounded over all connections, as it is for
// the native protocol: over it large requests are refused with the limit, small ones go on, and once
// something is answered there is room again. Without the bound each connection could make it keep
// its 320 calls of 4 MiB and 1024 waits, twice.
func TestRequestsNotAnsweredAreBounded(t *testing.T) {
	node := shared.get(t)
	owner := "heavy"
	x := &crossing{Handler: node, owner: owner, requests: true, kept: make(chan struct{}, 8)}
	svc := compat.NewService(x, compat.Options{Held: 1 << 20})
	t.Cleanup(func() {
		x.let()
		if _, err := svc.ForceRelease(context.Background(), &pb.ForceReleaseRequest{VictimId: owner}); err != nil {
			t.Error(err)
		}
		tidy(t, node)
	})
	ctx := within(t)
	large := func() *pb.AcquireRequest {
		req := acquire(owner)
		for i := range 100 {
			path := fmt.Sprintf("grpc:/heavy/%s%d", strings.Repeat("x", 3000), i)
			req.Requests = append(req.Requests, &pb.LockRequest{Path: path})
		}
		return req
	}
	answered := make(chan error, 2)
	ask := func(req *pb.AcquireRequest) {
		_, err := svc.Acquire(ctx, req)
		answered <- err
	}
	go ask(large())
	<-x.kept
	for name, asks := range map[string]func() error{
		"Acquire":      func() error { _, err := svc.Acquire(ctx, large()); return err },
		"AcquireWait":  func() error { _, err := svc.AcquireWait(ctx, large()); return err },
		"AcquireWatch": func() error { return svc.AcquireWatch(large(), &watchStream{ctx: ctx}) },
		"AcquireStream": func() error {
			return svc.AcquireStream(&bulkStream{ctx: ctx, chunks: []*pb.AcquireRequest{large()}})
		},
	} {
		err := asks()
		if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "at most 1048576 are taken") {
			t.Errorf("%s: %v", name, err)
		}
	}
	go ask(acquire(owner, "grpc:/heavy/small"))
	<-x.kept
	x.let()
	for range 2 {
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
	go ask(large())
	<-x.kept
	x.let()
	if err := <-answered; err != nil {
		t.Errorf("once all was answered: %v", err)
	}
}
