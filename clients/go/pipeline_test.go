package pathlockd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

func TestWindowIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithWindow(4), WithKeepAlive(time.Hour))
		answered := 0
		for n := range 10 {
			c.Go(release(n), func(_ *wire.Result, err error) {
				must(t, err)
				answered++
			})
		}
		// One of the four places is for renewals.
		var under []*asked
		for range 3 {
			under = append(under, p.want(wire.OpRelease))
		}
		p.quiet(time.Minute)
		for n := range 7 {
			p.ok(under[n])
			under = append(under, p.want(wire.OpRelease))
		}
		for _, a := range under[7:] {
			p.ok(a)
		}
		pass(0)
		if answered != 10 {
			t.Fatalf("%d answers, want 10", answered)
		}
		for n, a := range under {
			if a.req.Releases[0] != release(n).Releases[0] {
				t.Fatalf("request %d came as number %d", n, a.id)
			}
		}
	})
}

func TestBacklogIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, _, way := onLine(f, WithBacklog(2))
		way.cut(errUnreachable)
		pass(time.Second)
		results := make(chan error, 9)
		for n := range 3 {
			c.Go(release(n), func(_ *wire.Result, err error) { results <- err })
		}
		if err := <-results; !errors.Is(err, ErrBacklog) {
			t.Fatalf("the third: %v", err)
		}
		b := c.Batch()
		must(t, b.Add(release(3), func(_ *wire.Result, err error) { results <- err }))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := b.Send(ctx); !errors.Is(err, context.DeadlineExceeded) || b.Len() != 1 {
			t.Fatalf("%d requests left: %v", b.Len(), err)
		}
		sent := make(chan error, 1)
		go func() { sent <- b.Send(context.Background()) }()
		pass(time.Second)
		if len(sent) != 0 {
			t.Fatal("sent over a full backlog")
		}
		way.mend()
		p := f.open()
		for _, n := range []int{0, 1, 3} {
			a := p.want(wire.OpRelease)
			if a.req.Releases[0] != release(n).Releases[0] {
				t.Fatalf("request %d is %v", n, a.req.Releases)
			}
			p.ok(a)
			must(t, <-results)
		}
		must(t, <-sent)
		if b.Len() != 0 {
			t.Fatal("a batch that was sent is not empty")
		}
	})
}

func TestCallbacksMaySend(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		left, done := 1000, make(chan struct{})
		var next func(*wire.Result, error)
		next = func(_ *wire.Result, err error) {
			if err != nil {
				t.Error(err)
			}
			if left--; left == 0 {
				close(done)
			} else if left > 0 {
				c.Go(release(left), next)
			}
		}
		p.serveAll()
		c.Go(release(0), next)
		<-done
	})
}

func TestBatchGoesInOneWrite(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		ping := doing(context.Background(), c, &wire.Request{Op: wire.OpHealth})
		p.ok(p.want(wire.OpHealth)) // nothing is on its way any more
		must(t, (<-ping).err)
		b := c.Batch()
		for n := range 20 {
			must(t, b.Add(release(n), nil))
		}
		if err := b.Add(&wire.Request{Op: wire.OpHello}, nil); !errors.Is(err, ErrInvalidArgument) {
			t.Fatalf("hello in a batch: %v", err)
		}
		must(t, b.Send(context.Background()))
		buf := make([]byte, 1<<16)
		n, err := p.Read(buf) // of a pipe: what one write wrote
		must(t, err)
		count := 0
		for at := 0; at < n; count++ {
			_, size, _, err := wire.NextFrame(buf[at:n], wire.MaxFrameBytes)
			must(t, err)
			at += size
		}
		if count != 20 {
			t.Fatalf("%d requests in the first write, want 20", count)
		}
	})
}

// TestPeerThatReadsSlowly fills the sockets' buffers, so that what the kernel does
// not take has to wait, and nothing is lost or mixed up.
func TestPeerThatReadsSlowly(t *testing.T) {
	f := newSocketFake(t)
	c, p := f.client(WithKeepAlive(time.Minute))
	const many = 200
	long := strings.Repeat("x", 1000)
	paths := make([]wire.ReleaseRequest, 20)
	answers := make(chan error, many)
	for n := range many {
		for i := range paths {
			paths[i].Path = "a:/" + strings.Repeat("y", n%7+1) + long
		}
		c.Go(&wire.Request{Op: wire.OpRelease, Owner: "o", Releases: paths},
			func(_ *wire.Result, err error) { answers <- err })
	}
	// The callers have gone on, though nobody has read a byte.
	for n := range many {
		a := p.want(wire.OpRelease)
		if got, want := strings.Count(a.req.Releases[19].Path, "y"), n%7+1; got != want || len(a.req.Releases) != 20 {
			t.Fatalf("request %d has %d y, want %d", n, got, want)
		}
		p.ok(a)
	}
	for range many {
		must(t, <-answers)
	}
}

// TestLongAnswer needs a buffer that is longer than what one read takes.
func TestLongAnswer(t *testing.T) {
	f := newSocketFake(t)
	c, p := f.client()
	names := make([]string, 3000)
	for i := range names {
		names[i] = strings.Repeat("r", 100)
	}
	for range 2 {
		done := doing(context.Background(), c, &wire.Request{Op: wire.OpInspectPath, Path: "a:/b/c"})
		p.reply(p.want(wire.OpInspectPath).id, wire.OpInspectPath, &wire.Result{List: &wire.List{Names: names}})
		got := <-done
		must(t, got.err)
		if l := got.res.List.Names; len(l) != 3000 || l[2999] != names[0] {
			t.Fatalf("%d names", len(l))
		}
		must(t, pinged(c, p))
	}
}

// pinged pings a fake server.
func pinged(c *Client, p *peer) error {
	done := make(chan error, 1)
	go func() { done <- c.Ping(context.Background()) }()
	a, err := p.read()
	if err != nil {
		return err
	}
	p.ok(a)
	return <-done
}
