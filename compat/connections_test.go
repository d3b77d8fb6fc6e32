package compat_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"github.com/pathlockd/pathlockd/compat"
	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
)

// lines is a log that may be read while it is written to.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// TestConnectionLimit: one connection too many closes one that has no call under way,
// and is closed itself when there is none; calls that are under way never end for it.
func TestConnectionLimit(t *testing.T) {
	const most = 8
	log := new(lines)
	_, addr := serve(t, compat.ServerOptions{Connections: most, Log: slog.New(slog.NewTextHandler(log, nil))}, 0)
	subscribe := func() (grpc.ServerStreamingClient[pb.Event], context.CancelFunc) {
		t.Helper()
		c, _ := client(t, addr)
		ctx, cancel := context.WithCancel(within(t))
		t.Cleanup(cancel)
		stream, err := c.Subscribe(ctx, &pb.SubscribeRequest{OwnerId: "a"})
		if err == nil {
			_, err = stream.Header()
		}
		if err != nil {
			t.Fatal(err)
		}
		return stream, cancel
	}
	first, _ := subscribe()

	// Clients without a call make room: many more than the limit get in, one after the
	// other, and each gets in again when its connection was closed.
	var idle []chan struct{}
	for range 3 * most {
		r := dialRaw(t, addr)
		gone := make(chan struct{})
		idle = append(idle, gone)
		go func() { <-r.swallow(); close(gone) }()
	}
	c, _ := client(t, addr)
	if _, err := c.IsOwnerAlive(within(t), &pb.IsOwnerAliveRequest{OwnerId: "a"}); err != nil {
		t.Fatalf("a new client is kept out by idle ones: %v", err)
	}
	count := func() (n int) {
		for _, gone := range idle {
			select {
			case <-gone:
				n++
			default:
			}
		}
		return n
	}
	poll(t, func() bool { return count() >= 2*most+2 },
		func() string { return "more connections are open than the limit" })
	if n := count(); n > 2*most+2 {
		t.Errorf("%d idle connections were closed, want %d", n, 2*most+2)
	}

	// Now all have a call: the next is closed at once, and none of theirs ends.
	var cancels []context.CancelFunc
	streams := []grpc.ServerStreamingClient[pb.Event]{first}
	for range most - 1 {
		stream, cancel := subscribe()
		streams, cancels = append(streams, stream), append(cancels, cancel)
	}
	late, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	if n, err := late.Read(make([]byte, 1<<10)); err == nil {
		// The server's settings may come first; then nothing does.
		if _, err = late.Read(make([]byte, 1<<10)); err == nil {
			t.Errorf("a connection too many is served: %d bytes", n)
		}
	}
	if _, err := c.RequestRevoke(within(t), &pb.RequestRevokeRequest{OwnerId: "a"}); err == nil {
		t.Error("a call over a connection too many was answered")
	}
	cancels[0]()
	poll(t, func() bool {
		_, err := c.Acquire(within(t), acquire("a", "grpc:/connections/x"))
		return err == nil
	}, func() string { return "there is no room again after a call ended" })
	poll(t, func() bool {
		_, err := c.RequestRevoke(within(t), &pb.RequestRevokeRequest{OwnerId: "a"})
		return err == nil
	}, func() string { return "no call is answered" })
	for i, stream := range streams {
		if i == 1 {
			continue // the one that ended
		}
		if ev, err := stream.Recv(); err != nil || ev.Type != pb.EventType_EVENT_TYPE_REVOKE {
			t.Errorf("subscriber %d: %v, %v", i, ev, err)
		}
	}
	if text := log.String(); strings.Count(text, "too many connections") != 1 ||
		!strings.Contains(text, "interface=grpc") {
		t.Errorf("the log should be told once, and which interface it is:\n%s", text)
	}
}
