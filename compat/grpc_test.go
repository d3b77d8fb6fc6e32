package compat_test

import (
	"testing"

	"github.com/pathlockd/pathlockd/compat"
	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
)

func TestAcquireAndRelease(t *testing.T) {
	_, addr := serve(t, compat.ServerOptions{}, 0)
	c, _ := client(t, addr)
	ctx := within(t)
	res, err := c.Acquire(ctx, &pb.AcquireRequest{OwnerId: "a", TtlMs: 30_000, Requests: []*pb.LockRequest{{Path: "grpc:/first/one"}}})
	if err != nil || res.Status != pb.AcquireStatus_ACQUIRE_STATUS_OK || res.FencingToken <= 0 || res.Namespace != "grpc:/first" {
		t.Fatalf("acquire: %v, %v", res, err)
	}
	if _, err := c.Release(ctx, &pb.ReleaseLocksRequest{OwnerId: "a", Requests: []*pb.ReleaseRequest{{Path: "grpc:/first/one"}}}); err != nil {
		t.Fatal(err)
	}
	got, err := c.InspectPath(ctx, &pb.InspectPathRequest{Path: "grpc:/first/one"})
	if err != nil || got.WriteOwner != "" || !got.HasFence || got.Fence != res.FencingToken {
		t.Fatalf("inspect: %v, %v", got, err)
	}
}
