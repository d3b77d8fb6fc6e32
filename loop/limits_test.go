package loop_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// answers asks all in one write and answers the codes.
func answers(p *peer, reqs ...*wire.Request) (codes []wire.Code, results []wire.Result) {
	p.t.Helper()
	for _, id := range p.start(reqs...) {
		res := p.reply(id)
		codes, results = append(codes, res.Code), append(results, res)
	}
	return codes, results
}

const full = wire.ResourceExhausted

func TestInFlightLimit(t *testing.T) {
	// A write to a Unix socket is one read for the server: none is answered before the
	// last has come.
	s := serve(t, loop.Options{InFlight: 3})
	p := join(t, s.unix)
	ns := named("inflight")
	var reqs []*wire.Request
	for i := range 5 {
		reqs = append(reqs, write(ns, fmt.Sprintf("%s:/n/%d", ns, i)))
	}
	codes, results := answers(p, append(reqs, ping())...)
	if want := []wire.Code{0, 0, 0, full, full, 0}; !slices.Equal(codes, want) {
		t.Errorf("codes %v, want %v", codes, want)
	}
	if says := results[3].Message; says != "3 requests of this connection are not answered yet, at most 3 are taken" {
		t.Errorf("message %q", says)
	}
	// They are answered: there is room again. Waiting ones need none.
	other := join(t, s.unix)
	for i := range 3 {
		other.start(flagged(write("w", fmt.Sprintf("%s:/n/%d", ns, i)), wire.FlagWait))
		other.push(wire.PushQueued)
	}
	if codes, _ := answers(other, write("w", ns+":/n/7"), write("w", ns+":/n/8"),
		write("w", ns+":/n/9")); !slices.Equal(codes, []wire.Code{0, 0, 0}) {
		t.Errorf("beside three waits: %v", codes)
	}
}

func TestWaitingLimit(t *testing.T) {
	both(t, loop.Options{Waiting: 2}, func(t *testing.T, addr net.Addr) {
		ns := named("waiting")
		path := ns + ":/n/x"
		a, p := join(t, addr), join(t, addr)
		a.must(write("a", path))
		ids := p.start(flagged(write("b", path), wire.FlagWait), flagged(write("c", path), wire.FlagWait))
		p.push(wire.PushQueued)
		p.push(wire.PushQueued)
		p.refused(flagged(write("d", path), wire.FlagWait), full,
			"2 acquires of this connection wait, at most 2 are taken")
		p.must(&wire.Request{Op: wire.OpCancel, Target: ids[0]})
		if res := p.reply(ids[0]); res.Code != wire.Cancelled {
			t.Errorf("cancelled: %v", res.Err())
		}
		p.start(flagged(write("d", path), wire.FlagWait))
		p.push(wire.PushQueued)
	})
}

func TestSubscriptionsLimit(t *testing.T) {
	both(t, loop.Options{Subscriptions: 2}, func(t *testing.T, addr net.Addr) {
		p := join(t, addr)
		first := p.must(subscribe("a")).Count
		p.must(subscribe("a"))
		p.refused(subscribe("b"), full, "2 subscriptions are on this connection, at most 2 are taken")
		p.must(&wire.Request{Op: wire.OpUnsubscribe, Target: first + 100}) // which there is none
		p.refused(subscribe("b"), full, "at most 2")
		p.must(&wire.Request{Op: wire.OpUnsubscribe, Target: first})
		p.must(subscribe("b"))
	})
}

func TestBoundOwnersLimit(t *testing.T) {
	both(t, loop.Options{BoundOwners: 2}, func(t *testing.T, addr net.Addr) {
		p := join(t, addr)
		bind := func(owner string) *wire.Request { return &wire.Request{Op: wire.OpBind, Owner: owner} }
		for _, owner := range []string{"a", "b", "a"} {
			if res := p.ask(bind(owner)); res.Code != wire.OK {
				t.Errorf("bind %s: %v", owner, res.Err())
			}
		}
		p.refused(bind("c"), full, "2 owners are bound to this connection, at most 2 are taken")
		p.must(&wire.Request{Op: wire.OpUnbind, Owner: "a"})
		if res := p.ask(bind("c")); res.Code != wire.OK {
			t.Errorf("bind c: %v", res.Err())
		}
	})
}

func TestConnectionsLimit(t *testing.T) {
	s := serve(t, loop.Options{Connections: 3})
	peers := []*peer{join(t, s.tcp), join(t, s.unix), join(t, s.tcp)}
	for _, addr := range []net.Addr{s.tcp, s.unix} {
		dial(t, addr).endedWith(full, "the server has 3 connections, no more are taken")
	}
	for _, p := range peers {
		p.must(ping())
	}
	peers[1].hangUp()
	eventually(t, "there is room again", func() bool { return s.Connections() < 3 })
	join(t, s.tcp).must(ping())
}

// padded is a request with bytes behind its arguments, which a server skips and has
// to keep with it.
func padded(p *peer, req *wire.Request, pad int) (frame []byte, id uint64) {
	p.last++
	p.ops[p.last] = req.Op
	args, n := wire.AppendArgs(nil, req)
	spec, _ := req.Op.Spec()
	payload := wire.AppendUint(wire.AppendUint(wire.AppendArray(nil, 3+len(spec.Args)), p.last), uint64(req.Op))
	payload = append(payload, args...)
	for ; n < len(spec.Args); n++ {
		payload = wire.AppendNil(payload)
	}
	payload = wire.AppendBin(payload, make([]byte, pad))
	return append([]byte{byte(len(payload) >> 24), byte(len(payload) >> 16), byte(len(payload) >> 8),
		byte(len(payload))}, payload...), p.last
}

// TestHeldLimit: requests that wait for long, and for their own sake are long, take
// a bounded share of memory, and the small ones of others still go.
func TestHeldLimit(t *testing.T) {
	const limit = 1 << 20
	g := besiege(t, loop.Options{Held: limit})
	ns := named("held")
	path := ns + ":/n/x"
	a, p := join(t, g.s.tcp), join(t, g.s.unix)
	a.must(write("a", path))
	taken, refused := 0, 0
	var waits []uint64
	for i := range 20 {
		frame, id := padded(p, flagged(write(fmt.Sprint("w", i), path), wire.FlagWait), 100<<10)
		p.send(frame)
		for len(p.pushes) == 0 && len(p.replies) == 0 {
			p.must1(p.step())
		}
		if res, ok := p.replies[id]; ok {
			if delete(p.replies, id); res.Code != full {
				t.Fatalf("refused: %v", res.Err())
			}
			refused++
			continue
		}
		p.push(wire.PushQueued)
		waits = append(waits, id)
		taken++
	}
	if taken != 10 || refused != 10 {
		t.Errorf("%d long waits were taken, %d refused, want 10 of 100 KiB in 1 MiB", taken, refused)
	}
	a.start(flagged(write("small", path), wire.FlagWait))
	a.push(wire.PushQueued)
	a.must(write("b", ns+":/n/y"))
	// What is answered makes room.
	p.must(&wire.Request{Op: wire.OpCancel, Target: waits[0]})
	p.reply(waits[0])
	frame, _ := padded(p, flagged(write("again", path), wire.FlagWait), 100<<10)
	p.send(frame)
	p.push(wire.PushQueued)
	p.hangUp()
	a.hangUp()
	g.over(48 << 20)
}

// TestPinnedReads: a short request does not keep the long one in memory that came in
// the same read.
func TestPinnedReads(t *testing.T) {
	g := besiege(t, loop.Options{})
	ns := named("pinned")
	path := ns + ":/n/x"
	p := join(t, g.s.unix)
	p.must(write("a", path))
	for i := range 40 {
		long, _ := padded(p, ping(), 1<<20)
		short, _ := p.encode(flagged(write(fmt.Sprint("w", i), path), wire.FlagWait))
		p.send(append(long, short...))
		p.push(wire.PushQueued)
	}
	if grown := settledHeap(g.before, 10<<20); grown > 10<<20 {
		t.Errorf("40 short requests, each behind a ping of a MiB, keep %.1f MiB", mib(grown))
	} else {
		t.Logf("40 short requests, each behind a ping of a MiB, keep %+.1f MiB", mib(grown))
	}
	// Nor does what is kept to be used again: calls, and what the node ties to them.
	const most = 2 << 20
	before := heap()
	for range 5 {
		long, first := padded(p, ping(), 4<<20)
		short, second := p.encode(release("x", path))
		p.send(append(long, short...))
		p.reply(first)
		p.reply(second[0])
	}
	if grown := settledHeap(before, most); grown > most {
		t.Errorf("answered requests, each behind a ping of 4 MiB, keep %.1f MiB", mib(grown))
	} else {
		t.Logf("answered requests, each behind a ping of 4 MiB, keep %+.1f MiB", mib(grown))
	}
	p.hangUp()
	g.over(128 << 20)
}

// TestConnectStorm: thousands of connections come and go, in every way there is to
// go, and leave nothing.
func TestConnectStorm(t *testing.T) {
	g := besiege(t, loop.Options{})
	files := openFiles(t)
	began := time.Now()
	// What is left of a session keeps this alive, and shows.
	long, err := (&wire.Metadata{Command: strings.Repeat("x", 4000)}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	greet := func(meta []byte, reqs ...*wire.Request) []byte {
		frames := wire.AppendRequest(nil, 1,
			&wire.Request{Op: wire.OpHello, Hello: &wire.Hello{MinVersion: 1, MaxVersion: 1, Grace: 1, Meta: meta}})
		for i, req := range reqs {
			frames = wire.AppendRequest(frames, uint64(i)+2, req)
		}
		return frames
	}
	locks := greet(nil, flagged(write("storm", "storm:/n/x"), wire.FlagBind|wire.FlagWait))
	listens := greet(long, subscribe("storm"), &wire.Request{Op: wire.OpTopology, Watch: true})
	const n = 6000
	var piece [256]byte
	for i := range n {
		addr := []net.Addr{g.s.tcp, g.s.unix}[i%2]
		c, err := net.Dial(addr.Network(), addr.String())
		if err != nil {
			t.Fatal(err)
		}
		hello := [][]byte{locks, listens}[i/2%2]
		switch i % 5 {
		case 1: // half a hello
			c.Write(hello[:len(hello)/2])
		case 2: // and go without an answer
			c.Write(hello)
		case 3: // and go after the first
			c.Write(hello)
			c.SetReadDeadline(time.Now().Add(patience))
			if _, err := c.Read(piece[:]); err != nil {
				t.Fatal(err)
			}
		case 4: // by a reset
			c.Write(hello)
			if c, ok := c.(*net.TCPConn); ok {
				c.SetLinger(0)
			}
		}
		c.Close()
	}
	eventually(t, "only the bystander is left", func() bool { return g.s.Connections() == 1 })
	t.Logf("%d connections came and went in %v", n, time.Since(began).Round(time.Millisecond))
	eventually(t, "their sockets are closed", func() bool { return openFiles(t) <= files })
	look := join(t, g.s.tcp)
	eventually(t, "nothing of theirs is left", func() bool {
		res := look.must(describe("storm:/n/x"))
		return res.Count == 0 && res.List == nil
	})
	look.hangUp()
	g.over(64 << 20)
}

// TestManyAtOnce: connections that come at the same time are all served.
func TestManyAtOnce(t *testing.T) {
	s := serve(t, loop.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const n = 64
	done := make(chan error, n)
	for i := range n {
		addr := []net.Addr{s.tcp, s.unix}[i%2]
		go func() {
			c, err := (&net.Dialer{}).DialContext(ctx, addr.Network(), addr.String())
			if err != nil {
				done <- err
				return
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(patience))
			frames := wire.AppendRequest(nil, 1,
				&wire.Request{Op: wire.OpHello, Hello: &wire.Hello{MinVersion: 1, MaxVersion: 1}})
			frames = wire.AppendRequest(frames, 2, ping())
			if _, err = c.Write(frames); err == nil {
				want := wire.AppendReply(nil, 2, wire.OpPing, &wire.Result{})
				var got []byte
				for piece := make([]byte, 512); err == nil && !bytes.HasSuffix(got, want); {
					var m int
					m, err = c.Read(piece)
					got = append(got, piece[:m]...)
				}
			}
			done <- err
		}()
	}
	for range n {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestIDOfAWait: no request of any kind may take the id of an acquire that still waits.
func TestIDOfAWait(t *testing.T) {
	both(t, loop.Options{}, func(t *testing.T, addr net.Addr) {
		ns := named("reused")
		path := ns + ":/n/x"
		holds, p := join(t, addr), join(t, addr)
		holds.must(write("a", path))
		id := p.start(flagged(write("b", path), wire.FlagWait))[0]
		p.push(wire.PushQueued)
		for _, req := range []*wire.Request{ping(), {Op: wire.OpCancel, Target: id + 100}, describe(path),
			release("b", path)} {
			p.last = id - 1
			p.start(req)
			if res := p.reply(id); res.Code != wire.InvalidArgument ||
				!strings.Contains(res.Message, "in use by a waiting acquire") {
				t.Errorf("%v under the id of a waiting acquire: %v", req.Op, res.Err())
			}
		}
		p.ops[id] = wire.OpAcquire
		holds.must(release("a", path))
		if res := p.reply(id); res.Code != wire.OK || res.Status != wire.StatusOK {
			t.Errorf("the wait: %v, %v", res.Err(), res.Status)
		}
	})
}

// TestWaitOver: that a wait's time was over is told apart from an outcome that is not known.
func TestWaitOver(t *testing.T) {
	s := serve(t, loop.Options{})
	ns := named("over")
	path := ns + ":/n/x"
	p := join(t, s.tcp)
	p.must(write("a", path))
	short := flagged(write("b", path), wire.FlagWait)
	short.QueueTTLMillis = 1
	if res := p.ask(short); res.Code != wire.DeadlineExceeded || res.Cause != wire.CauseWaitOver {
		t.Errorf("%v with cause %d", res.Err(), res.Cause)
	}
}
