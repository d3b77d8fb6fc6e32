package face

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
)

// leaseMillis is the ttl_ms of locks that are held for a moment.
const leaseMillis = 60_000

// GRPC is a client of gRPC in plain text.
type GRPC struct {
	conn *grpc.ClientConn
	c    pb.PathLockClient
}

// DialGRPC makes a client with a connection of its own.
func DialGRPC(addr string) (*GRPC, error) {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("dial gRPC: %w", err)
	}
	return &GRPC{conn, pb.NewPathLockClient(conn)}, nil
}

// Acquire takes a path.
func (g *GRPC) Acquire(ctx context.Context, owner, path string) error {
	res, err := g.c.Acquire(ctx, &pb.AcquireRequest{OwnerId: owner, TtlMs: leaseMillis,
		Requests: []*pb.LockRequest{{Path: path}}})
	if err == nil && res.Status != pb.AcquireStatus_ACQUIRE_STATUS_OK {
		err = fmt.Errorf("acquire %s: %v", path, res)
	}
	return err
}

// Release gives a path back.
func (g *GRPC) Release(ctx context.Context, owner, path string) error {
	_, err := g.c.Release(ctx, &pb.ReleaseLocksRequest{OwnerId: owner, Requests: []*pb.ReleaseRequest{{Path: path}}})
	return err
}

// Close closes the connection.
func (g *GRPC) Close() { _ = g.conn.Close() }
