package compat_test

import (
	"context"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/pathlockd/pathlockd/compat"
	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
	"github.com/pathlockd/pathlockd/wire"
)

// roll takes down what the requests of gRPC clients are called on their way: by that the
// cluster knows its own repeat of one from the next.
type roll struct {
	wire.Handler
	mu    sync.Mutex
	under map[[16]byte]bool
	last  map[[16]byte]uint64
	wrong []string
	held  chan struct{} // an inspection has come
	hold  chan struct{} // they wait for it
}

// answered tells the roll that a call is not under way any more.
type answered struct {
	wire.Replier
	of *roll
	id [16]byte
}

func (a *answered) Reply(c *wire.Call) {
	a.of.mu.Lock()
	delete(a.of.under, a.id)
	a.of.mu.Unlock()
	a.Replier.Reply(c)
}

func (r *roll) Serve(calls []*wire.Call) {
	for i, c := range calls {
		id := c.Session.ID
		r.mu.Lock()
		switch {
		case r.under[id]:
			r.wrong = append(r.wrong, "two requests of one session are under way")
		case c.ID <= r.last[id]:
			r.wrong = append(r.wrong, "an id of a session is used again")
		case c.Session.Window != 4:
			r.wrong = append(r.wrong, "more answers of a session are kept than the last four")
		}
		r.under[id], r.last[id] = true, c.ID
		r.mu.Unlock()
		c.To = &answered{c.To, r, id}
		if c.Op == wire.OpInspectPath {
			r.held <- struct{}{}
			go func() {
				<-r.hold
				r.Handler.Serve([]*wire.Call{c})
			}()
			continue
		}
		r.Handler.Serve(calls[i : i+1])
	}
}

// TestSessions: each request has a session for itself until it is answered, also when
// its caller went before that, under an id that grows; and there are no more sessions
// than requests at once.
func TestSessions(t *testing.T) {
	r := &roll{
		Handler: shared.get(t), under: make(map[[16]byte]bool), last: make(map[[16]byte]uint64),
		hold: make(chan struct{}), held: make(chan struct{}),
	}
	srv := compat.NewServer(compat.NewService(r, compat.Options{}), compat.ServerOptions{InFlight: 1, Log: quiet})
	addr, err := srv.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	c, _ := client(t, addr)
	other, _ := client(t, addr)
	ctx, cancel := context.WithCancel(within(t))
	gone := make(chan error, 1)
	go func() {
		_, err := c.InspectPath(ctx, &pb.InspectPathRequest{Path: "grpc:/sessions/x"})
		gone <- err
	}()
	<-r.held
	mustAcquire(t, other, "a", "grpc:/sessions/x") // beside it
	cancel()
	want(t, <-gone, codes.Canceled)
	// The next call of its connection has its turn once the server let go of it.
	for range 20 {
		mustAcquire(t, c, "a", "grpc:/sessions/x")
		mustRelease(t, c, "a", "grpc:/sessions/x")
	}
	close(r.hold)
	poll(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.under) == 0
	}, func() string { return "a request is not answered" })
	for range 20 {
		mustAcquire(t, c, "a", "grpc:/sessions/x")
		mustRelease(t, c, "a", "grpc:/sessions/x")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.wrong) > 0 {
		t.Errorf("%d times, first: %s", len(r.wrong), r.wrong[0])
	}
	const turns = 8 // sessions take turns, beside the one of the request that stood
	if len(r.last) > turns+1 {
		t.Errorf("%d sessions for two requests at once", len(r.last))
	}
}
