package compat_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/pathlockd/pathlockd/compat"
	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
)

// pair acquires and releases a path of its own, again and again.
func pair(b *testing.B, c pathLock, i int64) func() {
	path := fmt.Sprintf("bench:/n%d/some/path", i)
	owner := fmt.Sprintf("owner-%d", i)
	take := acquire(owner, path)
	give := release(owner, path)
	ctx := context.Background()
	return func() {
		res, err := c.Acquire(ctx, take)
		if err != nil || res.Status != pb.AcquireStatus_ACQUIRE_STATUS_OK {
			b.Fatal(res, err)
		}
		if _, err := c.Release(ctx, give); err != nil {
			b.Fatal(err)
		}
	}
}

// pathLock is what both the service and its clients can do.
type pathLock interface {
	Acquire(ctx context.Context, in *pb.AcquireRequest) (*pb.AcquireResponse, error)
	Release(ctx context.Context, in *pb.ReleaseLocksRequest) (*pb.ReleaseResponse, error)
}

// stub is a client without its options.
type stub struct{ c pb.PathLockClient }

func (s stub) Acquire(ctx context.Context, in *pb.AcquireRequest) (*pb.AcquireResponse, error) {
	return s.c.Acquire(ctx, in)
}

func (s stub) Release(ctx context.Context, in *pb.ReleaseLocksRequest) (*pb.ReleaseResponse, error) {
	return s.c.Release(ctx, in)
}

// BenchmarkServicePair is the conversion and the way to the node and back, without a
// network; the node writes to memory.
func BenchmarkServicePair(b *testing.B) {
	svc := compat.NewService(shared.get(b), compat.Options{})
	b.ReportAllocs()
	b.SetParallelism(32)
	var n atomic.Int64
	b.RunParallel(func(p *testing.PB) {
		do := pair(b, svc, n.Add(1))
		for p.Next() {
			do()
		}
	})
}

// BenchmarkGRPCPair is the same through a stock client over loopback, which shares the
// processors and whose allocations are counted too.
func BenchmarkGRPCPair(b *testing.B) {
	_, addr := serve(b, compat.ServerOptions{}, 0)
	b.ReportAllocs()
	b.SetParallelism(32)
	var n atomic.Int64
	b.RunParallel(func(p *testing.PB) {
		c, _ := client(b, addr)
		do := pair(b, stub{c}, n.Add(1))
		for p.Next() {
			do()
		}
	})
}
