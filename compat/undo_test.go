package compat_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pathlockd/pathlockd/compat"
	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
	"github.com/pathlockd/pathlockd/wire"
)

// crossing is a handler that keeps acquires of an owner, or what they are answered, until
// the test lets them go: so their callers can go before.
type crossing struct {
	wire.Handler
	owner    string
	requests bool // keep the requests; else the answers

	kept chan struct{} // told of each that is kept
	mu   sync.Mutex
	held []func()
}

func (x *crossing) keep(f func()) {
	x.mu.Lock()
	x.held = append(x.held, f)
	x.mu.Unlock()
	x.kept <- struct{}{}
}

// let lets go of what is kept.
func (x *crossing) let() {
	x.mu.Lock()
	held := x.held
	x.held = nil
	x.mu.Unlock()
	for _, f := range held {
		f()
	}
}

func (x *crossing) Serve(calls []*wire.Call) {
	for i, c := range calls {
		if c.Op != wire.OpAcquire || c.Req.Owner != x.owner {
			x.Handler.Serve(calls[i : i+1])
			continue
		}
		if x.requests {
			x.keep(func() { x.Handler.Serve([]*wire.Call{c}) })
			continue
		}
		c.To = &crossed{c.To, x}
		x.Handler.Serve(calls[i : i+1])
	}
}

type crossed struct {
	wire.Replier
	of *crossing
}

func (r *crossed) Reply(c *wire.Call) {
	if c.Res.Code == wire.OK && c.Res.Status == wire.StatusOK {
		r.of.keep(func() { r.Replier.Reply(c) })
		return
	}
	r.Replier.Reply(c)
}

// TestCrossedGrants: what is granted to a call that has ended is taken back, whatever
// kind of acquire it was, whether the grant or the end of the call came first. Before
// that it was held until its lease ended.
func TestCrossedGrants(t *testing.T) {
	type asks func(ctx context.Context, svc *compat.Service, req *pb.AcquireRequest) error
	unary := func(ctx context.Context, svc *compat.Service, req *pb.AcquireRequest) error {
		_, err := svc.Acquire(ctx, req)
		return err
	}
	wait := func(ctx context.Context, svc *compat.Service, req *pb.AcquireRequest) error {
		_, err := svc.AcquireWait(ctx, req)
		return err
	}
	watch := func(ctx context.Context, svc *compat.Service, req *pb.AcquireRequest) error {
		return svc.AcquireWatch(req, &watchStream{ctx: ctx})
	}
	bulk := func(ctx context.Context, svc *compat.Service, req *pb.AcquireRequest) error {
		return svc.AcquireStream(&bulkStream{ctx: ctx, chunks: []*pb.AcquireRequest{req}})
	}
	for _, test := range []struct {
		name     string
		ask      asks
		requests bool // the call ends before the request is carried out
		held     bool // it waits for another owner first
		deadline bool // the call ends by its deadline
		keyed    bool
		stays    bool // what is granted is held
	}{
		{name: "granted at once", ask: unary},
		{name: "not yet asked", ask: unary, requests: true},
		{name: "over its deadline", ask: unary, requests: true, deadline: true},
		{name: "in bulk", ask: bulk},
		{name: "waiting, granted at once", ask: wait},
		{name: "waiting, not yet asked", ask: wait, requests: true},
		{name: "waiting, granted later", ask: wait, held: true},
		{name: "watching, granted later", ask: watch, held: true},
		{name: "watching, not yet asked", ask: watch, requests: true},
		{name: "with a key", ask: unary, keyed: true, stays: true}, // its repeat asks what became of it
	} {
		t.Run(test.name, func(t *testing.T) {
			node := shared.get(t)
			owner, path := "crossed", "grpc:/crossed/x"
			x := &crossing{Handler: node, owner: owner, requests: test.requests, kept: make(chan struct{}, 1)}
			svc := compat.NewService(x, compat.Options{})
			t.Cleanup(func() {
				x.let()
				tidy(t, node)
				if _, err := svc.ForceRelease(context.Background(),
					&pb.ForceReleaseRequest{VictimId: owner}); err != nil {
					t.Error(err)
				}
			})
			_, addr := serve(t, compat.ServerOptions{}, 0)
			other, _ := client(t, addr)
			if test.held {
				mustAcquire(t, other, "a", path)
			}
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			if test.deadline {
				ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
			}
			req := acquire(owner, path, "grpc:/crossed/y")
			req.TtlMs = 3_600_000
			if test.keyed {
				req.IdempotencyKey = rand.Text() // the node knows those of earlier runs
			}
			ended := make(chan error, 1)
			go func() { ended <- test.ask(ctx, svc, req) }()
			if test.held {
				waiters(t, other, path, owner)
				mustRelease(t, other, "a", path)
			}
			<-x.kept
			if !test.deadline {
				cancel()
			}
			if err := <-ended; status.Code(err) != codes.Canceled && status.Code(err) != codes.DeadlineExceeded {
				t.Fatalf("the call ended with %v", err)
			}
			x.let()
			if test.stays {
				if res, err := other.IsOwnerAlive(within(t), &pb.IsOwnerAliveRequest{OwnerId: owner}); err != nil ||
					!res.Alive {
					t.Errorf("the grant was taken back: %v, %v", res, err)
				}
				return
			}
			soon, stop := context.WithTimeout(within(t), 20*time.Second)
			defer stop()
			if res, err := other.AcquireWait(soon, acquire("b", path, "grpc:/crossed/y")); err != nil ||
				res.Status != pb.AcquireStatus_ACQUIRE_STATUS_OK {
				t.Errorf("what nobody knows of is held: %v, %v", res, err)
			}
			poll(t, func() bool {
				res, err := other.IsOwnerAlive(within(t), &pb.IsOwnerAliveRequest{OwnerId: owner})
				return err == nil && !res.Alive
			}, func() string { return "the owner has a lease for nothing" })
		})
	}
}

// watchStream and bulkStream are the streams of calls that come from nowhere.
type watchStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *watchStream) Context() context.Context       { return s.ctx }
func (s *watchStream) Send(*pb.AcquireResponse) error { return s.ctx.Err() }

type bulkStream struct {
	grpc.ServerStream
	ctx    context.Context
	chunks []*pb.AcquireRequest
}

func (s *bulkStream) Context() context.Context               { return s.ctx }
func (s *bulkStream) SendAndClose(*pb.AcquireResponse) error { return s.ctx.Err() }

func (s *bulkStream) Recv() (*pb.AcquireRequest, error) {
	if len(s.chunks) == 0 {
		return nil, io.EOF
	}
	chunk := s.chunks[0]
	s.chunks = s.chunks[1:]
	return chunk, nil
}

// TestCrossedAndAskedAgain: what the owner asked for in a later call is its own, though an
// earlier call that took it has ended unanswered.
func TestCrossedAndAskedAgain(t *testing.T) {
	node := shared.get(t)
	x := &crossing{Handler: node, owner: "c", kept: make(chan struct{}, 2)}
	svc := compat.NewService(x, compat.Options{})
	t.Cleanup(func() { x.let(); tidy(t, node) })
	direct := compat.NewService(node, compat.Options{})
	for i := range 50 {
		path := fmt.Sprintf("grpc:/crossed-again/%d", i)
		ctx, cancel := context.WithCancel(within(t))
		ended := make(chan error, 1)
		go func() {
			_, err := svc.AcquireWait(ctx, acquire("c", path))
			ended <- err
		}()
		<-x.kept
		again := make(chan error, 1)
		go func() { // beside the end of the first
			res, err := direct.Acquire(within(t), acquire("c", path))
			if err == nil && res.Status != pb.AcquireStatus_ACQUIRE_STATUS_OK {
				err = fmt.Errorf("answered %v", res)
			}
			again <- err
		}()
		cancel()
		want(t, <-ended, codes.Canceled)
		if err := <-again; err != nil {
			t.Fatal(err)
		}
		x.let()
	}
	svc.Leave() // ends what is being taken back
	for i := range 50 {
		path := fmt.Sprintf("grpc:/crossed-again/%d", i)
		res, err := direct.InspectPath(within(t), &pb.InspectPathRequest{Path: path})
		if err != nil || res.WriteOwner != "c" {
			t.Errorf("%s is held by %q, %v: the owner was told that it has it", path, res.GetWriteOwner(), err)
		}
	}
}
