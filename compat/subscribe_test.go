package compat_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/pathlockd/pathlockd/compat"
	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
	"github.com/pathlockd/pathlockd/wire"
)

// subscribe opens a stream that is live.
func subscribe(t testing.TB, c pb.PathLockClient, req *pb.SubscribeRequest) grpc.ServerStreamingClient[pb.Event] {
	t.Helper()
	stream, err := c.Subscribe(within(t), req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil {
		t.Fatal(err)
	}
	return stream
}

func next(t testing.TB, stream grpc.ServerStreamingClient[pb.Event], kind pb.EventType) *pb.Event {
	t.Helper()
	e, err := stream.Recv()
	if err != nil || e.Type != kind {
		t.Fatalf("event %v, %v; want %v", e, err, kind)
	}
	return e
}

func force(t testing.TB, c pb.PathLockClient, victim string) {
	t.Helper()
	if _, err := c.ForceRelease(within(t), &pb.ForceReleaseRequest{VictimId: victim}); err != nil {
		t.Fatal(err)
	}
}

func TestSubscribe(t *testing.T) {
	_, addr := serve(t, compat.ServerOptions{}, 0)
	c, _ := client(t, addr)
	mustAcquire(t, c, "sub-a", "grpc:/sub/x")
	force(t, c, "sub-b") // before anybody listens
	stream := subscribe(t, c, &pb.SubscribeRequest{OwnerId: "sub-b"})
	if res, err := c.Acquire(within(t), acquire("sub-b", "grpc:/sub/x")); err != nil ||
		res.Status != pb.AcquireStatus_ACQUIRE_STATUS_QUEUED {
		t.Fatalf("%v, %v", res, err)
	}
	mustRelease(t, c, "sub-a", "grpc:/sub/x")
	grant := next(t, stream, pb.EventType_EVENT_TYPE_GRANT)
	if grant.OwnerId != "sub-b" || grant.Path != "grpc:/sub/x" || grant.Namespace != "grpc:/sub" ||
		grant.FencingToken == 0 || len(grant.Cursor) == 0 {
		t.Errorf("grant %v", grant)
	}
	if _, err := c.RequestRevoke(within(t), &pb.RequestRevokeRequest{OwnerId: "sub-b"}); err != nil {
		t.Fatal(err)
	}
	next(t, stream, pb.EventType_EVENT_TYPE_REVOKE)
	force(t, c, "sub-b")
	killed := next(t, stream, pb.EventType_EVENT_TYPE_KILLED)

	// Another stream goes on behind the grant, and misses nothing.
	again := subscribe(t, c, &pb.SubscribeRequest{OwnerId: "sub-b", Cursor: grant.Cursor})
	next(t, again, pb.EventType_EVENT_TYPE_REVOKE)
	if e := next(t, again, pb.EventType_EVENT_TYPE_KILLED); string(e.Cursor) != string(killed.Cursor) {
		t.Errorf("the same event has other cursors: %x, %x", e.Cursor, killed.Cursor)
	}
}

// TestSubscribeTypes: what the contract does not know goes only to those who asked.
func TestSubscribeTypes(t *testing.T) {
	_, addr := serve(t, compat.ServerOptions{}, 0)
	c, _ := client(t, addr)
	asked := subscribe(t, c, &pb.SubscribeRequest{OwnerId: "types-a", Types: []pb.EventType{
		pb.EventType_EVENT_TYPE_EXPIRED, pb.EventType_EVENT_TYPE_KILLED}})
	plain := subscribe(t, c, &pb.SubscribeRequest{OwnerId: "types-a"})
	req := acquire("types-a", "grpc:/types/x")
	req.TtlMs = 1
	if _, err := c.Acquire(within(t), req); err != nil {
		t.Fatal(err)
	}
	if e := next(t, asked, pb.EventType_EVENT_TYPE_EXPIRED); e.Namespace != "grpc:/types" {
		t.Errorf("%v", e)
	}
	force(t, c, "types-a")
	next(t, asked, pb.EventType_EVENT_TYPE_KILLED)
	next(t, plain, pb.EventType_EVENT_TYPE_KILLED)

	progress := subscribe(t, c, &pb.SubscribeRequest{OwnerId: "types-b",
		Types: []pb.EventType{pb.EventType_EVENT_TYPE_PROGRESS}})
	mustAcquire(t, c, "types-a", "grpc:/types/x")
	if e := next(t, progress, pb.EventType_EVENT_TYPE_PROGRESS); len(e.Cursor) == 0 {
		t.Errorf("%v", e)
	}
}

func TestBadSubscriptions(t *testing.T) {
	_, addr := serve(t, compat.ServerOptions{}, 0)
	c, _ := client(t, addr)
	for _, b := range []struct {
		req   *pb.SubscribeRequest
		parts []string
	}{
		{&pb.SubscribeRequest{}, []string{"owner_id: must not be empty"}},
		{&pb.SubscribeRequest{OwnerId: "a\x00"}, []string{"owner_id", "NUL"}},
		{&pb.SubscribeRequest{OwnerId: "a", Types: []pb.EventType{0}}, []string{"types 0"}},
		{&pb.SubscribeRequest{OwnerId: "a", Types: []pb.EventType{77}}, []string{"types 77"}},
		{&pb.SubscribeRequest{OwnerId: "a", Cursor: []byte("x")}, []string{"cursor: is not one"}},
		{&pb.SubscribeRequest{OwnerId: "a", Cursor: []byte{0x90, 0x00}}, []string{"cursor: is not one"}},
	} {
		stream, err := c.Subscribe(within(t), b.req)
		if err == nil {
			_, err = stream.Recv()
		}
		want(t, err, codes.InvalidArgument, b.parts...)
	}
}

// TestSlowSubscriber: one that falls behind is cut off behind the last event it can
// have, and misses nothing when it goes on from there.
func TestSlowSubscriber(t *testing.T) {
	const backlog, events = 8, 60
	_, addr := serve(t, compat.ServerOptions{}, backlog)
	c, _ := client(t, addr)
	// A client that takes 64 KiB and no more until they are read.
	narrow, _ := client(t, addr, grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10))
	stream := subscribe(t, narrow, &pb.SubscribeRequest{OwnerId: "slow"})
	path := "grpc:/slow" + strings.Repeat("/"+strings.Repeat("x", 250), 15)
	for range events {
		mustAcquire(t, c, "fast", path)
		if res, err := c.Acquire(within(t), acquire("slow", path)); err != nil ||
			res.Status != pb.AcquireStatus_ACQUIRE_STATUS_QUEUED {
			t.Fatalf("%v, %v", res, err)
		}
		mustRelease(t, c, "fast", path)
		mustRelease(t, c, "slow", path)
	}
	cuts, token, cursor := 0, int64(0), []byte(nil)
	for got := 0; got < events; {
		e, err := stream.Recv()
		if err == nil {
			got++
			last := e.FencingToken
			if cursor = e.Cursor; last <= token {
				t.Fatalf("event %d has token %d after %d", got, last, token)
			}
			token = last
			continue
		}
		want(t, err, codes.ResourceExhausted, fmt.Sprintf("at most %d", backlog))
		if cuts++; cuts > events {
			t.Fatal("no progress")
		}
		stream = subscribe(t, narrow, &pb.SubscribeRequest{OwnerId: "slow", Cursor: cursor})
	}
	if cuts == 0 {
		t.Error("a subscriber that did not read was not cut off")
	}
}

// TestGap: a cursor that reaches back further than what is kept, or that is of
// another cluster, is answered with a gap first.
func TestGap(t *testing.T) {
	_, addr := serve(t, compat.ServerOptions{}, 0)
	c, _ := client(t, addr)
	future := wire.AppendPositions(nil, []wire.Position{{Log: 1, Index: 1 << 40}})
	e := next(t, subscribe(t, c, &pb.SubscribeRequest{OwnerId: "gap", Cursor: future}), pb.EventType_EVENT_TYPE_GAP)
	stream := subscribe(t, c, &pb.SubscribeRequest{OwnerId: "gap", Cursor: e.Cursor})
	force(t, c, "gap")
	next(t, stream, pb.EventType_EVENT_TYPE_KILLED)
}
