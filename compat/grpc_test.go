package compat_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pathlockd/pathlockd/compat"
	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
	"github.com/pathlockd/pathlockd/wire"
)

// want fails unless err has a code and its message every part.
func want(t testing.TB, err error, code codes.Code, parts ...string) {
	t.Helper()
	s := status.Convert(err)
	if s.Code() != code {
		t.Fatalf("have %v: %s\nwant %v", s.Code(), s.Message(), code)
	}
	for _, p := range parts {
		if !strings.Contains(s.Message(), p) {
			t.Fatalf("message %q\nshould have %q", s.Message(), p)
		}
	}
}

func acquire(owner string, paths ...string) *pb.AcquireRequest {
	req := &pb.AcquireRequest{OwnerId: owner, TtlMs: 60_000}
	for _, p := range paths {
		req.Requests = append(req.Requests, &pb.LockRequest{Path: p})
	}
	return req
}

func release(owner string, paths ...string) *pb.ReleaseLocksRequest {
	req := &pb.ReleaseLocksRequest{OwnerId: owner}
	for _, p := range paths {
		req.Requests = append(req.Requests, &pb.ReleaseRequest{Path: p})
	}
	return req
}

// mustAcquire takes locks that are free.
func mustAcquire(t testing.TB, c pb.PathLockClient, owner string, paths ...string) *pb.AcquireResponse {
	t.Helper()
	res, err := c.Acquire(within(t), acquire(owner, paths...))
	if err != nil || res.Status != pb.AcquireStatus_ACQUIRE_STATUS_OK {
		t.Fatalf("acquire %v: %v, %v", paths, res, err)
	}
	return res
}

func mustRelease(t testing.TB, c pb.PathLockClient, owner string, paths ...string) {
	t.Helper()
	if _, err := c.Release(within(t), release(owner, paths...)); err != nil {
		t.Fatal(err)
	}
}

func TestAcquireAndRelease(t *testing.T) {
	_, addr := serve(t, compat.ServerOptions{}, 0)
	c, _ := client(t, addr)
	res := mustAcquire(t, c, "a", "grpc:/first/one")
	if res.FencingToken <= 0 || res.Namespace != "grpc:/first" || res.Position != 0 {
		t.Fatalf("acquired %v", res)
	}
	mustRelease(t, c, "a", "grpc:/first/one")
	got, err := c.InspectPath(within(t), &pb.InspectPathRequest{Path: "grpc:/first/one"})
	if err != nil || got.WriteOwner != "" || !got.HasFence || got.Fence != res.FencingToken {
		t.Fatalf("inspect: %v, %v", got, err)
	}
}

// TestHolders: who holds, and who waits, is told with what they said of themselves.
func TestHolders(t *testing.T) {
	_, addr := serve(t, compat.ServerOptions{}, 0)
	c, _ := client(t, addr)
	req := acquire("a", "grpc:/holders/x")
	req.Metadata = &pb.Metadata{Host: "h", Pid: 7, StartUnixMs: 8, BootId: "b", Command: "c d",
		Labels: map[string]string{"k": "v"}}
	if _, err := c.Acquire(within(t), req); err != nil {
		t.Fatal(err)
	}
	res, err := c.Acquire(within(t), acquire("b", "grpc:/holders/x/y"))
	if err != nil || res.Status != pb.AcquireStatus_ACQUIRE_STATUS_QUEUED || res.Position != 1 {
		t.Fatalf("queued: %v, %v", res, err)
	}
	no := acquire("c", "grpc:/holders/x/z")
	no.NoQueue = true
	if res, err := c.Acquire(within(t), no); err != nil || res.Status != pb.AcquireStatus_ACQUIRE_STATUS_CONFLICT ||
		res.Owner != "a" {
		t.Fatalf("no_queue: %v, %v", res, err)
	}
	d, err := c.DescribePath(within(t), &pb.DescribePathRequest{Path: "grpc:/holders/x"})
	if err != nil || len(d.Holders) != 1 || d.Namespace != "grpc:/holders" {
		t.Fatalf("describe: %v, %v", d, err)
	}
	if h := d.Holders[0]; h.Owner != "a" || !h.HasFence || h.Fence == 0 || h.SinceUnixMs == 0 || h.ExpiresInMs == 0 ||
		!proto.Equal(h.Metadata, req.Metadata) {
		t.Errorf("holder %v", h)
	}
	below, err := c.DescribePath(within(t), &pb.DescribePathRequest{Path: "grpc:/holders/x/y"})
	if err != nil || len(below.Holders) != 0 || len(below.Covering) != 1 ||
		below.Covering[0].Path != "grpc:/holders/x" || len(below.Waiters) != 1 || below.WaitersTotal != 1 {
		t.Fatalf("describe below: %v, %v", below, err)
	}
	if w := below.Waiters[0]; w.Owner != "b" || w.Path != "grpc:/holders/x/y" || w.Position != 1 || w.Open ||
		w.ExpiresInMs == 0 {
		t.Errorf("waiter %v", w)
	}
	scan, err := c.ScanLocks(within(t), &pb.ScanLocksRequest{Prefix: "grpc:/holders"})
	if err != nil || len(scan.Entries) != 1 || !scan.Done || scan.Entries[0].Owner != "a" {
		t.Fatalf("scan: %v, %v", scan, err)
	}
	list, err := c.ListOwnerLocks(within(t),
		&pb.ListOwnerLocksRequest{OwnerId: "a", Domains: []string{"grpc:/holders"}})
	if err != nil || !list.Alive || len(list.Locks) != 1 || !proto.Equal(list.Locks[0].Metadata, req.Metadata) ||
		list.Locks[0].Fence == 0 {
		t.Fatalf("list: %v, %v", list, err)
	}
}

func TestAcquireWait(t *testing.T) {
	_, addr := serve(t, compat.ServerOptions{}, 0)
	c, _ := client(t, addr)
	mustAcquire(t, c, "a", "grpc:/wait/x")
	granted := make(chan *pb.AcquireResponse, 1)
	go func() {
		res, err := c.AcquireWait(within(t), acquire("b", "grpc:/wait/x"))
		if err != nil {
			t.Error(err)
		}
		granted <- res
	}()
	waiters(t, c, "grpc:/wait/x", "b")
	ctx, cancel := context.WithCancel(within(t))
	gone := make(chan error, 1)
	go func() {
		_, err := c.AcquireWait(ctx, acquire("c", "grpc:/wait/x"))
		gone <- err
	}()
	waiters(t, c, "grpc:/wait/x", "b", "c")
	cancel()
	want(t, <-gone, codes.Canceled)
	waiters(t, c, "grpc:/wait/x", "b") // c's place is free, with nobody having asked again
	short := acquire("d", "grpc:/wait/x")
	short.QueueTtlMs = 50
	_, err := c.AcquireWait(within(t), short)
	want(t, err, codes.DeadlineExceeded, "queue_ttl_ms")
	mustRelease(t, c, "a", "grpc:/wait/x")
	if res := <-granted; res.Status != pb.AcquireStatus_ACQUIRE_STATUS_OK || res.FencingToken == 0 {
		t.Fatalf("granted %v", res)
	}
}

// waiters waits until exactly these owners wait for a path, in this order.
func waiters(t testing.TB, c pb.PathLockClient, path string, owners ...string) {
	t.Helper()
	var have []string
	poll(t, func() bool {
		d, err := c.DescribePath(within(t), &pb.DescribePathRequest{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		have = nil
		for _, w := range d.Waiters {
			have = append(have, w.Owner)
		}
		return fmt.Sprint(have) == fmt.Sprint(owners)
	}, func() string { return fmt.Sprintf("%v wait, want %v", have, owners) })
}

// poll looks until it is so.
func poll(t testing.TB, is func() bool, otherwise func() string) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for late := time.After(90 * time.Second); !is(); {
		select {
		case <-look.C:
		case <-late:
			t.Fatal(otherwise())
		}
	}
}

func TestAcquireWatch(t *testing.T) {
	_, addr := serve(t, compat.ServerOptions{}, 0)
	c, _ := client(t, addr)
	mustAcquire(t, c, "a", "grpc:/watch/x")
	stream, err := c.AcquireWatch(within(t), acquire("b", "grpc:/watch/x"))
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil || first.Status != pb.AcquireStatus_ACQUIRE_STATUS_QUEUED || first.Position != 1 ||
		first.Owner != "a" {
		t.Fatalf("first %v, %v", first, err)
	}
	mustRelease(t, c, "a", "grpc:/watch/x")
	last, err := stream.Recv()
	if err != nil || last.Status != pb.AcquireStatus_ACQUIRE_STATUS_OK {
		t.Fatalf("last %v, %v", last, err)
	}
	if _, err := stream.Recv(); err == nil {
		t.Fatal("more follows")
	}
	// What is free is granted at once, without a place.
	stream, err = c.AcquireWatch(within(t), acquire("b", "grpc:/watch/y"))
	if err != nil {
		t.Fatal(err)
	}
	if only, err := stream.Recv(); err != nil || only.Status != pb.AcquireStatus_ACQUIRE_STATUS_OK {
		t.Fatalf("only %v, %v", only, err)
	}
}

// TestStopping: calls that would stay open are ended when the node stops.
func TestStopping(t *testing.T) {
	svc, addr := serve(t, compat.ServerOptions{}, 0)
	c, conn := client(t, addr)
	mustAcquire(t, c, "a", "grpc:/stopping/x")
	sub, err := c.Subscribe(within(t), &pb.SubscribeRequest{OwnerId: "a"})
	if err != nil {
		t.Fatal(err)
	}
	watch, err := grpc_health_v1.NewHealthClient(conn).Watch(within(t), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if now, err := watch.Recv(); err != nil || now.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Fatalf("%v, %v", now, err)
	}
	waits := make(chan error, 1)
	go func() {
		_, err := c.AcquireWait(within(t), acquire("b", "grpc:/stopping/x"))
		waits <- err
	}()
	waiters(t, c, "grpc:/stopping/x", "b")
	svc.Leave()
	want(t, <-waits, codes.Unavailable, "shutting down")
	d, err := compat.NewService(shared.get(t), compat.Options{}).DescribePath(within(t),
		&pb.DescribePathRequest{Path: "grpc:/stopping/x"})
	if err != nil || len(d.Waiters) != 0 {
		t.Errorf("who was told that nothing was granted still waits: %v, %v", d, err)
	}
	_, err = sub.Recv()
	want(t, err, codes.Unavailable, "shutting down")
	_, err = watch.Recv()
	want(t, err, codes.Unavailable, "shutting down")
}

func TestHealth(t *testing.T) {
	_, addr := serve(t, compat.ServerOptions{}, 0)
	c, conn := client(t, addr)
	own, err := c.Health(within(t), &pb.HealthRequest{})
	if err != nil || !own.Ok || own.Detail != "ready" || own.NodeId == "" || own.ClusterId == "" {
		t.Fatalf("%v, %v", own, err)
	}
	std := grpc_health_v1.NewHealthClient(conn)
	for _, service := range []string{"", "pathlockd.v1.PathLock"} {
		res, err := std.Check(within(t), &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil || res.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v, %v", service, res, err)
		}
	}
	_, err = std.Check(within(t), &grpc_health_v1.HealthCheckRequest{Service: "other"})
	want(t, err, codes.NotFound, `service "other"`)
	if all, err := std.List(within(t), &grpc_health_v1.HealthListRequest{}); err != nil || len(all.Statuses) != 2 {
		t.Errorf("%v, %v", all, err)
	}
}

func TestReflection(t *testing.T) {
	_, addr := serve(t, compat.ServerOptions{}, 0)
	_, conn := client(t, addr)
	stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{
			FileContainingSymbol: "pathlockd.v1.PathLock",
		},
	}); err != nil {
		t.Fatal(err)
	}
	res, err := stream.Recv()
	if err != nil || len(res.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Fatalf("%v, %v", res, err)
	}
}

// rawCodec sends bytes as they are.
type rawCodec struct{ encoding.Codec }

func (rawCodec) Marshal(v any) ([]byte, error)   { return v.([]byte), nil }
func (rawCodec) Unmarshal(b []byte, v any) error { *v.(*[]byte) = b; return nil }
func (rawCodec) Name() string                    { return "proto" }

func TestBadMessages(t *testing.T) {
	_, addr := serve(t, compat.ServerOptions{}, 0)
	c, conn := client(t, addr)
	call := func(method string, body []byte) error {
		var out []byte
		return conn.Invoke(within(t), "/pathlockd.v1.PathLock/"+method, body, &out, grpc.ForceCodec(rawCodec{}))
	}
	want(t, call("Acquire", []byte("\x0a\x03\xff\xfe\xfd")), codes.InvalidArgument, "owner_id: is not valid UTF-8")
	want(t, call("Acquire", []byte("\x1a\x05\x0a\x03\xff\xfe\xfd")), codes.InvalidArgument,
		"requests: path: is not valid UTF-8")
	want(t, call("Acquire", []byte{0x0a}), codes.InvalidArgument, "no message of this RPC")
	want(t, call("AcquireStream", []byte("\x0a\x03\xff\xfe\xfd")), codes.InvalidArgument,
		"owner_id: is not valid UTF-8")
	want(t, call("Subscribe", []byte("\x0a\x03\xff\xfe\xfd")), codes.InvalidArgument, "owner_id: is not valid UTF-8")
	want(t, call("Frobnicate", nil), codes.Unimplemented, "Frobnicate")
	want(t, call("Acquire", make([]byte, compat.MaxMessageBytes+1)), codes.ResourceExhausted, "4194304")

	bad := acquire("a", "grpc:/bad/x")
	bad.Requests[0].Mode = 2
	_, err := c.Acquire(within(t), bad)
	want(t, err, codes.InvalidArgument, "requests: mode 2", "0 to 1")
	bad.Requests[0].Mode = 256 // cut to a byte it would be a write
	_, err = c.Acquire(within(t), bad)
	want(t, err, codes.InvalidArgument, "requests: mode 256", "0 to 1")
	_, err = c.IsBlocking(within(t), &pb.IsBlockingRequest{ConflictPath: "grpc:/bad/x", ConflictOwner: "a",
		Reason: 257})
	want(t, err, codes.InvalidArgument, "reason 257")
	_, err = c.SetNamespacePolicy(within(t), &pb.SetNamespacePolicyRequest{Namespace: "grpc:/bad", Algorithm: -1})
	want(t, err, codes.InvalidArgument, "algorithm -1", "0 to 4")
	both := acquire("a", "grpc:/bad/x")
	both.NoQueue = true
	_, err = c.AcquireWait(within(t), both)
	want(t, err, codes.InvalidArgument, "exclude each other")
	long := acquire("a", "grpc:/bad/x")
	long.Metadata = &pb.Metadata{Command: strings.Repeat("x", 5000)}
	_, err = c.Acquire(within(t), long)
	want(t, err, codes.InvalidArgument, "metadata", "4096")
}

// gate is a handler that lets calls through when a test says so.
type gate struct {
	wire.Handler
	arrived chan struct{}
	open    chan struct{}
}

func (g *gate) Serve(calls []*wire.Call) {
	if calls[0].Op == wire.OpInspectPath {
		g.arrived <- struct{}{}
		<-g.open
	}
	g.Handler.Serve(calls)
}

// TestTurns: of more calls at once than a connection may have under way the rest wait
// their turn; those that stay open, and those of others, have no part in it.
func TestTurns(t *testing.T) {
	const most, calls = 2, 20
	g := &gate{shared.get(t), make(chan struct{}, calls), make(chan struct{})}
	srv := compat.NewServer(compat.NewService(g, compat.Options{}), compat.ServerOptions{InFlight: most, Log: quiet})
	addr, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	c, _ := client(t, addr)
	done := make(chan error, calls)
	for range calls {
		go func() {
			_, err := c.InspectPath(within(t), &pb.InspectPathRequest{Path: "grpc:/turns/x"})
			done <- err
		}()
	}
	for range most {
		<-g.arrived
	}
	other, _ := client(t, addr)
	mustAcquire(t, other, "a", "grpc:/turns/x")
	stream, err := c.AcquireWatch(within(t), acquire("b", "grpc:/turns/x"))
	if err != nil {
		t.Fatal(err)
	}
	if first, err := stream.Recv(); err != nil || first.Status != pb.AcquireStatus_ACQUIRE_STATUS_QUEUED {
		t.Fatalf("%v, %v", first, err)
	}
	ctx, cancel := context.WithCancel(within(t))
	gone := make(chan error, 1)
	go func() {
		_, err := c.AcquireWait(ctx, acquire("c", "grpc:/turns/x"))
		gone <- err
	}()
	waiters(t, other, "grpc:/turns/x", "b", "c")
	if n := len(g.arrived); n > 0 {
		t.Errorf("%d calls are under way, at most %d should be", most+n, most)
	}
	cancel()
	want(t, <-gone, codes.Canceled)
	close(g.open)
	for range calls {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
