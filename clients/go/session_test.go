package pathlockd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// release is a request that changes something, told apart by n.
func release(n int) *wire.Request {
	return &wire.Request{
		Op: wire.OpRelease, Owner: "o", Releases: []wire.ReleaseRequest{{Path: "a:/b/" + strconv.Itoa(n)}},
	}
}

// outcome is what a call came to.
type outcome struct {
	res *wire.Result
	err error
}

// doing asks a request in the background.
func doing(ctx context.Context, c *Client, req *wire.Request) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		res, err := c.Do(ctx, req)
		done <- outcome{res, err}
	}()
	return done
}

func TestUnansweredRequestsAreSentAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		answers := make(chan int, 9)
		ask := func(n int) {
			c.Go(release(n), func(_ *wire.Result, err error) {
				if err != nil {
					t.Errorf("request %d: %v", n, err)
				}
				answers <- n
			})
		}
		var first []*asked
		for n := range 4 {
			ask(n)
			first = append(first, p.next())
		}
		p.ok(first[1])
		if n := <-answers; n != 1 {
			t.Fatalf("request %d was answered, want 1", n)
		}
		old := p.hello
		p.Close()
		pass(0)
		ask(4) // a new one, while there is no connection
		p = f.open()
		if !bytes.Equal(p.hello.Session, old.Session) || p.hello.Epoch != old.Epoch+1 {
			t.Fatalf("hello of session %x epoch %d, want %x %d", p.hello.Session, p.hello.Epoch,
				old.Session, old.Epoch+1)
		}
		if p.id <= first[3].id {
			t.Fatalf("hello has id %d, want one above %d", p.id, first[3].id)
		}
		for _, n := range []int{0, 2, 3} { // in the old order, under the old ids
			a := p.next()
			if a.raw != first[n].raw {
				t.Fatalf("sent again: %x, want %x", a.raw, first[n].raw)
			}
			p.ok(a)
			if got := <-answers; got != n {
				t.Fatalf("request %d was answered, want %d", got, n)
			}
		}
		a := p.next()
		if a.id <= p.id || a.req.Releases[0].Path != "a:/b/4" {
			t.Fatalf("the new request is %d %+v", a.id, a.req)
		}
		p.ok(a)
		<-answers
		pass(0)
		if len(answers) != 0 {
			t.Fatal("a request was answered twice")
		}
	})
}

func TestForgottenSessionLeavesOutcomesUnknown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p, way := onLine(f)
		write := doing(context.Background(), c, release(1))
		p.want(wire.OpRelease)
		read := doing(context.Background(), c, &wire.Request{Op: wire.OpInspectPath, Path: "a:/b/c"})
		asked := p.want(wire.OpInspectPath)
		old := p.hello
		way.cut(errUnreachable)
		pass(time.Duration(testLimits.RepeatMillis) * time.Millisecond)
		if len(write) != 0 {
			t.Fatal("given up before the next connection")
		}
		way.mend()
		p = f.open()
		if bytes.Equal(p.hello.Session, old.Session) || p.hello.Epoch != 1 {
			t.Fatalf("hello of the old session, epoch %d", p.hello.Epoch)
		}
		if got := <-write; !errors.Is(got.err, ErrOutcomeUnknown) {
			t.Fatalf("the write: %v", got.err)
		}
		again := p.want(wire.OpInspectPath)
		if again.id <= asked.id {
			t.Fatalf("the read was asked anew as %d, after %d", again.id, asked.id)
		}
		p.ok(again)
		must(t, (<-read).err)
	})
}

func TestUnavailableIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		done := doing(context.Background(), c, release(1))
		last := uint64(0)
		for range 5 {
			a := p.want(wire.OpRelease)
			if a.id <= last {
				t.Fatalf("asked anew as %d, after %d", a.id, last)
			}
			last = a.id
			p.refuse(a, wire.Unavailable)
		}
		p.ok(p.want(wire.OpRelease))
		must(t, (<-done).err)
	})
}

func TestUnavailableIsTriedUntilTheContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		go p.serve(func(a *asked) *wire.Result { return &wire.Result{Code: wire.Unavailable, Message: "not now"} })
		done := doing(within(t, patience), c, release(1))
		got := <-done
		if !IsUnavailable(got.err) || !errors.Is(got.err, context.DeadlineExceeded) ||
			errors.Is(got.err, ErrOutcomeUnknown) {
			t.Fatalf("got %v", got.err)
		}
	})
}

func TestUnknownOutcomeIsRepeatedUnderItsID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		done := doing(context.Background(), c, release(1))
		first := p.want(wire.OpRelease)
		p.refuse(first, wire.DeadlineExceeded)
		again := p.want(wire.OpRelease)
		if again.raw != first.raw {
			t.Fatalf("repeated as %x, want %x", again.raw, first.raw)
		}
		p.ok(again)
		must(t, (<-done).err)
	})
}

func TestUnknownOutcomeIsRepeatedWhileTheServerRemembers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		began := time.Now()
		go p.serve(func(a *asked) *wire.Result {
			return &wire.Result{Code: wire.DeadlineExceeded,
				Message: "who knows"}
		})
		got := <-doing(context.Background(), c, release(1))
		if !errors.Is(got.err, ErrOutcomeUnknown) || !errors.Is(got.err, ErrDeadlineExceeded) {
			t.Fatalf("got %v", got.err)
		}
		if d := time.Since(began); d < 50*time.Second || d > 60*time.Second {
			t.Fatalf("repeated for %v, want nearly the minute that the server remembers", d)
		}
	})
}

// TestUnavailableRepeatIsUnknown: what is UNAVAILABLE when it is repeated is not taken for surely not done.
func TestUnavailableRepeatIsUnknown(t *testing.T) {
	not := &refusal{op: wire.OpAcquire, err: wire.Error{Code: wire.Unavailable}}
	if !IsUnavailable(not) || errors.Is(not, ErrOutcomeUnknown) {
		t.Error("what was sent once is not taken for surely not done")
	}
	if err := fmt.Errorf("%w: %w", ErrOutcomeUnknown, not); IsUnavailable(err) {
		t.Errorf("%v is taken for surely not done", err)
	}
}

func TestRefusalIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		done := doing(context.Background(), c, release(1))
		p.refuse(p.want(wire.OpRelease), wire.FailedPrecondition)
		err := (<-done).err
		var refused *Error
		if !errors.Is(err, ErrFailedPrecondition) || !errors.As(err, &refused) ||
			refused.Message != "the test says so" {
			t.Fatalf("got %v", err)
		}
		if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) ||
			!strings.HasPrefix(err.Error(), "release: ") {
			t.Fatalf("got %v", err)
		}
	})
}

func TestContextEndsARequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p, way := onLine(f)
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(context.Background())
		write := doing(ctx, c, release(1))
		p.want(wire.OpRelease)
		read := doing(ctx, c, &wire.Request{Op: wire.OpInspectPath, Path: "a:/b/c"})
		p.want(wire.OpInspectPath)
		way.cut(errUnreachable)
		pass(time.Second)
		unsent := doing(ctx, c, release(2))
		pass(time.Second)
		cancel(stop)
		if err := (<-write).err; !errors.Is(err, stop) || !errors.Is(err, ErrOutcomeUnknown) {
			t.Fatalf("a write that was sent: %v", err)
		}
		if err := (<-read).err; !errors.Is(err, stop) || errors.Is(err, ErrOutcomeUnknown) {
			t.Fatalf("a read: %v", err)
		}
		err := (<-unsent).err
		if !errors.Is(err, stop) || errors.Is(err, ErrOutcomeUnknown) ||
			!strings.Contains(err.Error(), errUnreachable.Error()) {
			t.Fatalf("what was not sent: %v", err)
		}
		if err := (<-doing(ctx, c, release(3))).err; !errors.Is(err, stop) || errors.Is(err, ErrOutcomeUnknown) {
			t.Fatalf("a context that has ended before: %v", err)
		}
		way.mend()
		p = f.open()
		pinged := make(chan error, 1)
		go func() { pinged <- c.Ping(context.Background()) }()
		if a, err := p.read(); err != nil || a.req.Op != wire.OpPing {
			t.Fatalf("got %+v %v, want nothing that nobody waits for", a, err)
		} else {
			p.ok(a)
		}
		must(t, <-pinged)
		if err := (<-doing(ctx, c, release(3))).err; !errors.Is(err, stop) {
			t.Fatal(err)
		}
		p.quiet(time.Second)
	})
}

func TestCloseEndsRequests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithWindow(1))
		sent := doing(context.Background(), c, release(1))
		p.want(wire.OpRelease)
		unsent := doing(context.Background(), c, release(2))
		pass(0)
		c.Close()
		for _, done := range []<-chan outcome{sent, unsent, doing(context.Background(), c, release(3))} {
			if err := (<-done).err; !errors.Is(err, ErrClosed) {
				t.Fatalf("got %v", err)
			}
		}
		p.gone()
		must(t, c.Close()) // again is the same
	})
}

func TestRequestsAreRefusedHere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		first := make(chan *peer, 1)
		go func() {
			p := f.accept()
			l := testLimits
			l.FrameBytes = 200
			p.welcome(l)
			first <- p
		}()
		c := dial(t, f.addr, WithDialer(f.dial))
		p := <-first
		p.serveAll()
		for name, req := range map[string]*wire.Request{
			"hello":    {Op: wire.OpHello, Hello: &wire.Hello{}},
			"cancel":   {Op: wire.OpCancel, Target: 1},
			"internal": {Op: wire.OpDetach},
			"unknown":  {Op: 200},
			"too long": {Op: wire.OpForceRelease, Owner: strings.Repeat("o", 200)},
		} {
			if _, err := c.Do(context.Background(), req); !errors.Is(err, ErrInvalidArgument) {
				t.Errorf("%s: %v", name, err)
			}
		}
		_, err := c.Do(context.Background(), &wire.Request{Op: wire.OpForceRelease, Owner: strings.Repeat("o", 180)})
		must(t, err)
	})
}
