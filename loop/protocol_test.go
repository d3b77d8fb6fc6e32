package loop_test

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

func TestHello(t *testing.T) {
	both(t, loop.Options{RequestMillis: 31, GroupInFlight: 32, Stall: 33 * time.Second, Outbound: 34, InFlight: 17,
		Waiting: 18, Subscriptions: 19, BoundOwners: 20}, func(t *testing.T, addr net.Addr) {
		p := join(t, addr)
		w := p.welcome
		want := wire.Limits{FrameBytes: wire.MaxFrameBytes, InFlight: 17, Waiting: 18, Subscriptions: 19,
			BoundOwners: 20, RepeatMillis: 60_000,
			UnreadBytes: 34, UnreadMillis: 33_000, RequestMillis: 31, GroupInFlight: 32}
		if w.Version != 1 || w.NodeID == "" || w.ClusterID == "" || len(w.Session) != 16 || w.Epoch != 1 ||
			w.Features != 0 || w.ServerVersion != "test" || w.Limits != want {
			t.Errorf("welcome %+v", w)
		}
		if other := join(t, addr); bytes.Equal(other.welcome.Session, w.Session) {
			t.Error("two sessions were given one id")
		}
		p.refused(&wire.Request{Op: wire.OpHello, Hello: &wire.Hello{MinVersion: 1, MaxVersion: 1}},
			wire.FailedPrecondition, "said already")
		p.must(ping())
	})
}

func TestHelloRefused(t *testing.T) {
	both(t, loop.Options{}, func(t *testing.T, addr net.Addr) {
		p := dial(t, addr)
		// Before hello, all is refused for that alone, good or bad, known or not.
		p.refused(ping(), wire.FailedPrecondition, "must be hello")
		p.refused(&wire.Request{Op: wire.OpAcquire}, wire.FailedPrecondition, "must be hello")
		p.send([]byte{0, 0, 0, 4, 0x92, 0x09, 0xcc, 0xc8})
		p.ops[9] = wire.OpPing
		if res := p.reply(9); res.Code != wire.FailedPrecondition {
			t.Errorf("unknown operation before hello: %v", res.Err())
		}
		p.last = 20
		for _, h := range []*wire.Hello{{MinVersion: 2, MaxVersion: 3}, {}} {
			p.refused(&wire.Request{Op: wire.OpHello, Hello: h}, wire.FailedPrecondition, "this server 1 to 1")
		}
		p.refused(&wire.Request{Op: wire.OpHello, Hello: &wire.Hello{MinVersion: 1, MaxVersion: 1, Session: []byte{1}}},
			wire.InvalidArgument, "must be 16 or empty")
		p.refused(&wire.Request{Op: wire.OpHello}, wire.InvalidArgument, "missing")
		// It may still get it right.
		if res := p.greet(&wire.Hello{MinVersion: 0, MaxVersion: 9}); res.Code != wire.OK {
			t.Errorf("hello after refused ones: %v", res.Err())
		}
		p.must(ping())
	})
}

func TestPing(t *testing.T) {
	both(t, loop.Options{}, func(t *testing.T, addr net.Addr) {
		p := join(t, addr)
		for range 100 {
			p.must(ping())
		}
	})
}

func TestUnknownOperation(t *testing.T) {
	both(t, loop.Options{}, func(t *testing.T, addr net.Addr) {
		p := join(t, addr)
		p.last = 1000
		for id, op := range map[uint64]byte{200: 99, 201: byte(wire.OpDetach), 202: byte(wire.OpFreeze),
			203: 0, 204: 31} {
			frame := wire.AppendArray([]byte{0, 0, 0, 6}, 2)
			frame = append(frame, 0xcd, byte(id>>8), byte(id), 0xcc, op)
			p.ops[id] = wire.OpPing
			p.send(frame)
			if res := p.reply(id); res.Code != wire.Unimplemented {
				t.Errorf("operation %d: %v", op, res.Err())
			}
		}
		p.must(ping())
	})
}

// TestInvalid: a request that breaks a rule is refused, and nothing else is.
func TestInvalid(t *testing.T) {
	both(t, loop.Options{}, func(t *testing.T, addr net.Addr) {
		p := join(t, addr)
		bad := write("o", "tenant:/a/")
		frames, ids := p.encode(ping(), bad, ping(), write("", "tenant:/a"), ping())
		p.send(frames)
		for i, want := range []wire.Code{wire.OK, wire.InvalidArgument, wire.OK, wire.InvalidArgument, wire.OK} {
			if res := p.reply(ids[i]); res.Code != want {
				t.Errorf("request %d: %v, want %v", i, res.Err(), want)
			}
		}
	})
}

// TestPipelining sends many requests of many kinds in one write.
func TestPipelining(t *testing.T) {
	both(t, loop.Options{}, func(t *testing.T, addr net.Addr) {
		p := join(t, addr)
		ns := named("pipe")
		var reqs []*wire.Request
		for i := range 60 {
			path := fmt.Sprintf("%s:/n/%d", ns, i)
			reqs = append(reqs, write(ns, path), ping(), &wire.Request{Op: wire.OpInspectPath, Path: path},
				release(ns, path))
		}
		token := int64(0)
		for i, id := range p.start(reqs...) {
			res := p.reply(id)
			if err := res.Err(); err != nil || res.Status != wire.StatusOK {
				t.Fatalf("request %d: %v, %v", i, err, res.Status)
			}
			if i%4 == 0 {
				if res.Token <= token || res.Namespace != ns+":/n" {
					t.Errorf("acquire %d: token %d after %d, namespace %s", i/4, res.Token, token, res.Namespace)
				}
				token = res.Token
			}
		}
	})
}

// TestOrder: releases and acquires of a namespace are carried out as they were
// sent, also when they come in one write.
func TestOrder(t *testing.T) {
	s := serve(t, loop.Options{})
	ns := named("order")
	a, b := join(t, s.tcp), join(t, s.unix)
	path := ns + ":/n/x"
	a.must(write("a", path))
	waits := b.start(flagged(write("b", path), wire.FlagWait))[0]
	b.push(wire.PushQueued)
	ids := a.start(release("a", path), write("a", path))
	if res := a.reply(ids[1]); res.Status != wire.StatusQueued || res.Owner != "b" {
		t.Errorf("the acquire behind the release: %v, owner %s; b was first", res.Status, res.Owner)
	}
	if res := b.reply(waits); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Errorf("the waiter: %v, %v", res.Err(), res.Status)
	}
}

// TestOutOfOrder: what is quick is answered before what was asked earlier.
func TestOutOfOrder(t *testing.T) {
	both(t, loop.Options{}, func(t *testing.T, addr net.Addr) {
		p := join(t, addr)
		ns := named("ooo")
		p.order = nil
		ids := p.start(write(ns, ns+":/n/x"), ping())
		p.reply(ids[0])
		p.reply(ids[1])
		if want := []uint64{ids[1], ids[0]}; !slices.Equal(p.order, want) {
			t.Errorf("answered in the order %v, want the ping first: %v", p.order, want)
		}
	})
}

func TestWaitingAcquire(t *testing.T) {
	both(t, loop.Options{}, func(t *testing.T, addr net.Addr) {
		ns := named("wait")
		path := ns + ":/n/x"
		a, b, c := join(t, addr), join(t, addr), join(t, addr)
		held := a.must(write("a", path))
		first := b.start(flagged(write("b", path), wire.FlagWait))[0]
		q := b.push(wire.PushQueued).queued
		if r := q.Result; q.ID != first || r.Status != wire.StatusQueued || r.Position != 1 || r.Owner != "a" ||
			r.Path != path ||
			r.Reason != wire.ReasonWriteLocked || r.Token <= held.Token || r.Namespace != ns+":/n" {
			t.Errorf("b's notice: %+v", q)
		}
		second := c.start(flagged(write("c", path), wire.FlagWait))[0]
		if q := c.push(wire.PushQueued).queued; q.ID != second || q.Result.Position != 2 {
			t.Errorf("c's notice: %+v", q)
		}
		b.must(ping()) // the connection is not held up
		a.must(release("a", path))
		granted := b.reply(first)
		if granted.Code != wire.OK || granted.Status != wire.StatusOK || granted.Token <= held.Token {
			t.Errorf("b's grant: %+v", granted)
		}
		b.must(release("b", path))
		if res := c.reply(second); res.Code != wire.OK || res.Status != wire.StatusOK || res.Token <= granted.Token {
			t.Errorf("c's grant: %+v", res)
		}
		// An id that waits is not free.
		id := b.start(flagged(write("b", path), wire.FlagWait))[0]
		b.push(wire.PushQueued)
		b.last, b.ops[id] = id-1, wire.OpRelease
		if got := b.start(release("b", path))[0]; got != id {
			t.Fatalf("id %d, want %d", got, id)
		}
		if res := b.reply(id); res.Code != wire.InvalidArgument {
			t.Errorf("another request under the id of one that waits: %v", res.Err())
		}
		b.ops[id] = wire.OpAcquire
		c.must(release("c", path))
		if res := b.reply(id); res.Code != wire.OK || res.Status != wire.StatusOK {
			t.Errorf("and the one that waits: %v", res.Err())
		}
	})
}

// TestNoNotice: an acquire that need not wait is answered, and no notice comes.
func TestNoNotice(t *testing.T) {
	s := serve(t, loop.Options{})
	p := join(t, s.tcp)
	ns := named("free")
	p.must(flagged(write("a", ns+":/n/x"), wire.FlagWait))
	p.must(ping())
	if len(p.pushes) != 0 {
		t.Errorf("pushes %+v", p.pushes)
	}
}

func TestCancel(t *testing.T) {
	both(t, loop.Options{}, func(t *testing.T, addr net.Addr) {
		ns := named("cancel")
		path := ns + ":/n/x"
		a, b := join(t, addr), join(t, addr)
		a.must(write("a", path))
		id := b.start(flagged(write("b", path), wire.FlagWait))[0]
		b.push(wire.PushQueued)
		b.must(&wire.Request{Op: wire.OpCancel, Target: id + 1000}) // which there is none
		b.must(&wire.Request{Op: wire.OpCancel, Target: id})
		if res := b.reply(id); res.Code != wire.Cancelled {
			t.Errorf("the wait: %v, want CANCELLED", res.Err())
		}
		if res := a.must(describe(path)); res.Count != 0 {
			t.Errorf("%d still wait", res.Count)
		}
		// In one write the wait comes first, and so it is found.
		ids := b.start(flagged(write("b", path), wire.FlagWait), &wire.Request{Op: wire.OpCancel, Target: id + 3})
		if ids[0] != id+3 {
			t.Fatalf("id %d, want %d", ids[0], id+3)
		}
		if res := b.reply(ids[0]); res.Code != wire.Cancelled {
			t.Errorf("wait and cancel in one write: %v, want CANCELLED", res.Err())
		}
		a.must(release("a", path))
		b.must(write("b", path))
	})
}

// TestDescribe shows holders with their metadata, and waiters in order.
func TestDescribe(t *testing.T) {
	both(t, loop.Options{}, func(t *testing.T, addr net.Addr) {
		ns := named("desc")
		path := ns + ":/n/x"
		meta := func(host string) []byte {
			m := wire.Metadata{Host: host, PID: 7, StartUnixMillis: 8, BootID: "boot", Command: "cmd",
				Labels: map[string]string{"k": host}}
			b, err := m.Encode()
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		p := joinAs(t, addr, &wire.Hello{Meta: meta("of-hello")})
		token := p.must(write("a", path)).Token
		own := flagged(write("b", path), wire.FlagWait)
		own.Meta = meta("of-request")
		p.start(own)
		p.push(wire.PushQueued)
		p.must(write("c", ns+":/n/x2"))
		if res := p.ask(write("c", path)); res.Status != wire.StatusQueued {
			t.Fatalf("c: %v", res.Status)
		}
		res := join(t, addr).must(describe(path))
		l := res.List
		if res.Namespace != ns+":/n" || !res.Flag || res.Token != token || res.Count != 2 || len(l.Infos) != 1 ||
			len(l.Waiters) != 2 {
			t.Fatalf("describe: %+v %+v", res, l)
		}
		check := func(who string, raw []byte, host string) {
			t.Helper()
			m, err := wire.DecodeMetadata(raw)
			if err != nil || m.Host != host || m.PID != 7 || m.StartUnixMillis != 8 || m.BootID != "boot" ||
				m.Command != "cmd" || m.Labels["k"] != host {
				t.Errorf("metadata of %s: %+v, %v", who, m, err)
			}
		}
		check("a", l.Infos[0].Meta, "of-hello")
		check("b", l.Waiters[0].Meta, "of-request")
		check("c", l.Waiters[1].Meta, "of-hello")
		if h := l.Infos[0]; h.Owner != "a" || h.ExpiresInMillis == 0 || h.ExpiresInMillis > 60_000 ||
			h.SinceUnixMillis == 0 {
			t.Errorf("holder: %+v", h)
		}
		if b, c := l.Waiters[0], l.Waiters[1]; b.Owner != "b" || b.Position != 1 || !b.Open || c.Owner != "c" ||
			c.Position != 2 || c.Open {
			t.Errorf("waiters: %+v, %+v", b, c)
		}
	})
}

func TestTopology(t *testing.T) {
	both(t, loop.Options{}, func(t *testing.T, addr net.Addr) {
		p := join(t, addr)
		for _, watch := range []bool{false, true, true, false} {
			res := p.must(&wire.Request{Op: wire.OpTopology, Watch: watch})
			top := res.List.Topology
			if top.Self != p.welcome.NodeID || top.GroupLogs != 16 || len(top.Leaders) == 0 || len(top.Nodes) != 1 ||
				top.Nodes[0].NodeID != top.Self {
				t.Errorf("topology %+v", top)
			}
		}
	})
}

// TestGoodbyeIsLast: nothing follows a goodbye, not even answers that are ready.
func TestGoodbyeIsLast(t *testing.T) {
	for range 10 {
		s := serve(t, loop.Options{InFlight: 1000})
		p := join(t, s.unix)
		ns := named("last")
		var reqs []*wire.Request
		for i := range 500 {
			reqs = append(reqs, write(ns, fmt.Sprintf("%s%d:/n/x", ns, i)))
		}
		ids := p.start(reqs...)
		p.reply(ids[0])
		s.Goodbye(wire.Errorf(wire.Unavailable, "the server stops"))
		p.endedWith(wire.Unavailable, "the server stops")
	}
}
