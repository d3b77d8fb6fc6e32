package pathlockd

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

func TestAddresses(t *testing.T) {
	all, err := parseAddresses("127.0.0.1:50050, unix:/run/pathlockd.sock,[::1]:1")
	must(t, err)
	if len(all) != 3 || all[0] != (address{"tcp", "127.0.0.1:50050"}) ||
		all[1] != (address{"unix", "/run/pathlockd.sock"}) ||
		all[2] != (address{"tcp", "[::1]:1"}) {
		t.Fatalf("got %v", all)
	}
	for _, bad := range []string{"", "localhost", "unix:", "a:1,,b:2", "a:b:c"} {
		if _, err := Dial(context.Background(), bad); err == nil || !strings.Contains(err.Error(), "host:port") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for says, opt := range map[string]Option{
		"grace":        WithGrace(-1),
		"keep-alive":   WithKeepAlive(0),
		"dial timeout": WithDialTimeout(0),
		"backlog":      WithBacklog(0),
		"window":       WithWindow(-1),
		"labels":       WithLabels(map[string]string{"x": strings.Repeat("y", wire.MaxMetadataBytes)}),
	} {
		if _, err := Dial(context.Background(), "a:1", opt); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

func TestHello(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client(WithName("app/1"), WithWindow(7), WithGrace(3*time.Second), WithCommand("x"),
			WithLabels(map[string]string{"team": "search"}))
		h := p.hello
		if h.MinVersion != 1 || h.MaxVersion != 1 || len(h.Session) != wire.SessionBytes || h.Epoch != 1 ||
			h.Client != "app/1" || h.Window != 7 || h.Grace != 3000 {
			t.Fatalf("hello: %+v", h)
		}
		if m, err := DecodeMetadata(h.Meta); err != nil || m.Command != "x" || m.Labels["team"] != "search" ||
			m.PID == 0 {
			t.Fatalf("metadata: %+v %v", m, err)
		}
		if i := c.ServerInfo(); i.NodeID != "fake" || i.Address != "fake:1" || c.Server() != "fake" {
			t.Fatalf("server: %+v", i)
		}
	})
}

func TestDialFails(t *testing.T) {
	for name, one := range map[string]struct {
		serve func(p *peer)
		err   error
		says  string
		after time.Duration
	}{
		"refused": {func(p *peer) {
			p.reply(p.id, wire.OpHello, &wire.Result{Code: wire.FailedPrecondition, Message: "no common version"})
		}, ErrFailedPrecondition, "no common version", 0},
		"turned away": {func(p *peer) {
			p.send(wire.AppendGoodbye(nil, wire.Errorf(wire.ResourceExhausted, "full")))
		}, ErrResourceExhausted, "full", 0},
		"hung up on": {func(p *peer) { p.Close() }, io.EOF, "hello to fake:1", 0},
		"not heard":  {func(*peer) {}, context.DeadlineExceeded, "hello to fake:1", DefaultDialTimeout},
		"garbage":    {func(p *peer) { p.send([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }, nil, "hello", 0},
		"nothing":    {func(p *peer) { p.reply(p.id, wire.OpHello, &wire.Result{}) }, nil, "welcome is empty", 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				go func() { one.serve(f.accept()) }()
				began := time.Now()
				_, err := Dial(context.Background(), f.addr, WithDialer(f.dial))
				if err == nil || one.err != nil && !errors.Is(err, one.err) ||
					!strings.Contains(err.Error(), one.says) {
					t.Fatalf("got %v", err)
				}
				if d := time.Since(began); d != one.after {
					t.Fatalf("after %v, want %v", d, one.after)
				}
			})
		})
	}
}

func TestDialTriesEachAddress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		dialer := func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr != "c:3" {
				return nil, errNobody
			}
			return f.dial(ctx, network, addr)
		}
		go func() { f.open().serveAll() }()
		c, err := Dial(context.Background(), "a:1,b:2,c:3", WithDialer(dialer))
		must(t, err)
		defer c.Close()
		if got := c.ServerInfo().Address; got != "c:3" {
			t.Fatalf("connected to %s", got)
		}
		_, err = Dial(context.Background(), "a:1,b:2", WithDialer(dialer))
		if err == nil || !strings.Contains(err.Error(), "a:1") || !strings.Contains(err.Error(), "b:2") {
			t.Fatalf("got %v, want what each address said", err)
		}
	})
}

func TestPausesBetweenConnections(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		_, _, way := onLine(f)
		way.cut(errUnreachable)
		pass(0)
		if n := way.count(); n != 2 { // the first, and one at once
			t.Fatalf("%d attempts, want 2", n)
		}
		pass(time.Second)
		if n := way.count(); n < 5 || n > 8 { // after 50, 100, 200, 400 ms, and up to half less
			t.Fatalf("%d attempts within a second", n)
		}
		before := way.count()
		pass(time.Minute)
		if n := way.count() - before; n < 29 || n > 62 { // every 1 to 2 s
			t.Fatalf("%d attempts in a minute", n)
		}
	})
}

func TestSilentServerIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		go p.serve(func(a *asked) *wire.Result { return granted(a.req) })
		pass(time.Hour) // it answers pings
		if len(f.conns) != 0 {
			t.Fatal("a server that answers pings was left")
		}
		must(t, c.Ping(context.Background()))

		_, p = f.client()
		began := time.Now()
		ping, err := p.read()
		if err != nil || ping.req.Op != wire.OpPing || time.Since(began) != DefaultKeepAlive {
			t.Fatalf("%v after %v: %v", ping, time.Since(began), err)
		}
		f.accept().welcome(testLimits)
		if d := time.Since(began); d != 2*DefaultKeepAlive {
			t.Fatalf("left after %v", d)
		}
	})
}

func TestServerThatSaysGoodbyeIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		f.addr = "a:1,b:2"
		_, p := f.client()
		for _, next := range []string{"b:2", "a:1"} {
			p.send(wire.AppendGoodbye(nil, wire.Errorf(wire.Unavailable, "the server stops")))
			if p = f.open(); p.addr != next {
				t.Fatalf("connected to %s, want %s", p.addr, next)
			}
		}
		p.Close() // no goodbye: it may be back at once
		if p = f.open(); p.addr != "a:1" {
			t.Fatalf("connected to %s, want the same again", p.addr)
		}
	})
}

func TestServerThatRefusesAllIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		f.addr = "a:1,b:2"
		c, p := f.client()
		go p.serve(func(a *asked) *wire.Result { return &wire.Result{Code: wire.Unavailable, Message: "no leader"} })
		began := time.Now()
		done := doing(context.Background(), c, release(1))
		p = f.open()
		if d := time.Since(began); p.addr != "b:2" || d < elsewhereAfter || d > 3*elsewhereAfter {
			t.Fatalf("connected to %s after %v", p.addr, d)
		}
		p.ok(p.want(wire.OpRelease))
		must(t, (<-done).err)
	})
}

func TestGarbageEndsAConnection(t *testing.T) {
	reply := wire.AppendReply(nil, 3, wire.OpInspectPath, &wire.Result{Owner: "o"})
	for name, bytes := range map[string][]byte{
		"no length":      {0, 0, 0, 0},
		"too long":       {0xff, 0xff, 0xff, 0xff},
		"no array":       {0, 0, 0, 1, 0x01},
		"no code":        {0, 0, 0, 2, 0x91, 0x02},
		"short":          append([]byte{0, 0, 0, byte(len(reply) - 5)}, reply[4:len(reply)-1]...),
		"an event":       {0, 0, 0, 4, 0x93, 0x00, 0x02, 0xc1},
		"after an event": append(wire.AppendEvent(nil, &wire.Event{Subscription: 9, Kind: 1}), 0, 0, 0, 1, 0xc1),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.client()
				done := doing(context.Background(), c, &wire.Request{Op: wire.OpInspectPath, Path: "a:/b/c"})
				if a := p.want(wire.OpInspectPath); a.id != 3 {
					t.Fatalf("its id is %d, the bytes are for 3", a.id)
				}
				p.send(bytes)
				if name == "short" { // it is that request's answer, and it is wrong
					var wrong *ProtocolError
					if err := (<-done).err; !errors.As(err, &wrong) {
						t.Fatalf("got %v", err)
					}
					f.open()
					return
				}
				p = f.open()
				p.ok(p.want(wire.OpInspectPath)) // nothing was lost by it
				must(t, (<-done).err)
			})
		})
	}
}

func TestWhatIsNotKnownIsIgnored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		c, p := f.client()
		p.send([]byte{0, 0, 0, 4, 0x93, 0x00, 0x60, 0xc0})                               // a push of kind 96
		p.reply(4711, wire.OpPing, &wire.Result{})                                       // nobody asked
		p.send(wire.AppendEvent(nil, &wire.Event{Subscription: 9, Kind: 1, Owner: "o"})) // nobody subscribed
		p.send(wire.AppendQueued(nil, &wire.Queued{ID: 4711}))                           // nobody waits
		p.send(wire.AppendProgress(nil, wire.PushGap, &wire.Progress{Subscription: 9}))  // nobody subscribed
		p.send([]byte{0, 0, 0, 9, 0x95, 0x02, 0x00, 0xc0, 0xc0, 0x93, 0x01, 0x02, 0x03}) // a reply of a newer server
		done := doing(context.Background(), c, &wire.Request{Op: wire.OpHealth})
		a := p.want(wire.OpHealth)
		p.ok(a)
		must(t, (<-done).err)
	})
}
