package compat_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/compat"
	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
)

// TestAdv8IdleConnectionsKeepNoGrants: what a connection was granted is kept so that it can be taken back, with all its paths, until
// the connection is granted something again: a client that has one grant of many short paths, gives it back and idles costs the server
// megabytes for as long as it stays connected, of which there may be 16 384 connections (tens of GiB). Against architecture.md's "grants of a gRPC
// connection that can be taken back, and their paths: 1024 for 10 s, 256 KiB", and design.md section 5 "nothing a client sends can grow memory without bound".
func TestAdv8IdleConnectionsKeepNoGrants(t *testing.T) {
	svc, addr := serve(t, compat.ServerOptions{}, 0)
	const conns, chunks, each = 64, 64, 1024
	chunk := acquire("a")
	chunk.Requests = make([]*pb.LockRequest, each)
	for i := range chunk.Requests {
		chunk.Requests[i] = &pb.LockRequest{Path: "a:/b"}
	}
	all := make([]pb.PathLockClient, conns)
	grant := func(c pb.PathLockClient, n int) {
		stream, err := c.AcquireStream(within(t))
		for i := 0; err == nil && i < n; i++ {
			err = stream.Send(chunk)
		}
		var res *pb.AcquireResponse
		if err == nil {
			res, err = stream.CloseAndRecv()
		}
		if err != nil || res.Status != pb.AcquireStatus_ACQUIRE_STATUS_OK {
			t.Fatalf("%v, %v", res, err)
		}
	}
	for i := range all {
		all[i], _ = client(t, addr)
		if _, err := all[i].IsOwnerAlive(within(t), &pb.IsOwnerAliveRequest{OwnerId: "a"}); err != nil {
			t.Fatal(err)
		}
	}
	grant(all[0], chunks) // what the server needs once
	idle := func() int64 {
		if _, err := svc.ReleaseAll(within(t), &pb.ReleaseAllRequest{OwnerId: "a"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(12 * time.Second) // more than the 10 s
		heap()
		runtime.GC() // what pools have kept goes with the second
		return heap()
	}
	before := idle()
	for _, c := range all {
		grant(c, chunks)
	}
	grew := idle() - before
	t.Logf("memory grew by %.1f MiB: %d KiB for each idle connection", float64(grew)/(1<<20), grew/conns>>10)
	// The node itself, whose logs are in memory here, takes some half of that.
	if most := int64(conns << 20); grew > most {
		t.Errorf("%d idle connections that hold nothing keep %d bytes, 12 s after their last answer: at most %d are bearable", conns, grew, most)
	}
}
