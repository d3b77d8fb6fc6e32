package pathlockd

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAWaitThatWasOverIsOver: the answer that a wait's time is over is lost with its connection. The server says so
// again, with the cause that says it, and the caller, whose context does not end, is told.
func TestAWaitThatWasOverIsOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		done := doing(context.Background(), c, waiting(10*time.Second))
		p.want(wire.OpAcquire)
		pass(10 * time.Second)
		p.Close() // with the answer
		p = f.open()
		var said atomic.Int64
		go p.serve(func(a *asked) *wire.Result {
			if a.req.Op != wire.OpAcquire {
				return &wire.Result{}
			}
			said.Add(1)
			return &wire.Result{Code: wire.DeadlineExceeded, Cause: wire.CauseWaitOver,
				Message: "the time in the queue is over"}
		})
		select {
		case out := <-done:
			if !errors.Is(out.err, ErrDeadlineExceeded) {
				t.Fatalf("got %v", out.err)
			}
		case <-time.After(time.Hour):
			t.Errorf("an hour later the caller is not told yet; the server said %d times that the wait is over",
				said.Load())
			c.Close()
			<-done
		}
	})
}

// deafConn is a connection whose client's side hears nothing any more once it is deaf.
type deafConn struct {
	net.Conn
	deaf *atomic.Bool
}

func (d *deafConn) Read(b []byte) (int, error) {
	for {
		n, err := d.Conn.Read(b)
		if err != nil || !d.deaf.Load() {
			return n, err
		}
	}
}

// TestAWaitThatWasOverIsOverAtAServer is the same against a real server.
func TestAWaitThatWasOverIsOverAtAServer(t *testing.T) {
	t.Parallel()
	addr := server(t)
	holder := dial(t, addr)
	l, err := holder.Lock(within(t, patience), path(t, "/a"))
	must(t, err)
	defer l.Unlock()
	var mu sync.Mutex
	var last *deafConn
	c := dial(t, addr, WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		last = &deafConn{nc, new(atomic.Bool)}
		return last, nil
	}))
	req := waiting(time.Second)
	req.Locks = []wire.LockRequest{{Path: path(t, "/a")}}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := doing(ctx, c, req)
	waiters := func(n uint64) func() bool {
		return func() bool {
			d, err := holder.Describe(within(t, patience), path(t, "/a"), 0)
			must(t, err)
			return d.WaitersTotal == n
		}
	}
	eventually(t, "that it waits", waiters(1))
	mu.Lock()
	first := last
	mu.Unlock()
	first.deaf.Store(true)
	eventually(t, "that its time is over, of which nobody hears", waiters(0))
	first.Close()
	select {
	case out := <-done:
		if !errors.Is(out.err, ErrDeadlineExceeded) {
			t.Errorf("got %v", out.err)
		}
	case <-time.After(15 * time.Second):
		t.Error("15 s after a queue time of 1 s was over the caller is not told yet")
		cancel()
		<-done
	}
}
