package loop_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// forgets is a handler that refuses binds as a log does whose client has settled them (TestForgottenBinds).
type forgets struct{ wire.Handler }

func (h *forgets) Serve(calls []*wire.Call) {
	for i, c := range calls {
		if c.Op != wire.OpBind {
			h.Handler.Serve(calls[i : i+1])
			continue
		}
		c.Res.Fail(wire.Errorf(wire.Forgotten, "the answer is not kept any more"))
		c.To.Reply(c)
		c.To.Flush()
	}
}

// raw asks under an id of its own.
func (p *peer) raw(id uint64, req *wire.Request) wire.Result {
	p.t.Helper()
	p.ops[id] = req.Op
	p.send(wire.AppendRequest(nil, id, req))
	return p.reply(id)
}

// TestForgottenBinds: what a real node answers to binds whose ids are settled.
func TestForgottenBinds(t *testing.T) {
	s := serve(t, loop.Options{})
	ns := named("forgotten")
	p := join(t, s.tcp)
	req := write(ns, ns+":/n/x")
	req.Settled = 1 << 40
	p.raw(1<<40, req)
	for id := range uint64(3) {
		res := p.raw(1000+id, &wire.Request{Op: wire.OpBind, Owner: ns, GraceMillis: 1000})
		if res.Code != wire.Forgotten {
			t.Fatalf("%v", res.Err())
		}
	}
}

// TestRefusedBinds: binds that are refused cost the loop, and the memory, of one.
func TestRefusedBinds(t *testing.T) {
	const many = 150_000
	srv, err := loop.New(&forgets{shared.get(t)}, loop.Options{Log: quiet, Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	addr, err := srv.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ns := named("bonds")
	p, other := join(t, addr), join(t, addr)
	p.raw(1<<40, write(ns, ns+":/n/x"))
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	id := uint64(1000)
	burst := func() time.Duration {
		began := time.Now()
		var frames []byte
		for range 250 {
			id++
			p.ops[id] = wire.OpBind
			frames = wire.AppendRequest(frames, id, &wire.Request{Op: wire.OpBind, Owner: ns, GraceMillis: 1000})
		}
		p.send(frames)
		for i := range uint64(250) {
			if res := p.reply(id - i); res.Code != wire.Forgotten {
				t.Fatal(res.Err())
			}
		}
		p.order = p.order[:0]
		return time.Since(began)
	}
	// The least of many bursts: whatever else the machine does only adds to one.
	least := func() time.Duration {
		shortest := burst()
		for range 40 {
			shortest = min(shortest, burst())
		}
		return shortest
	}
	burst() // warms up
	first := least()
	for id < many {
		burst()
	}
	last := least()
	worst := time.Duration(0) // of another client's ping on the same loop, while 250 binds are on their way
	for range 5 {
		var frames []byte
		for range 250 {
			id++
			p.ops[id] = wire.OpBind
			frames = wire.AppendRequest(frames, id, &wire.Request{Op: wire.OpBind, Owner: ns, GraceMillis: 1000})
		}
		p.send(frames)
		began := time.Now()
		other.must(ping())
		worst = max(worst, time.Since(began))
		for i := range uint64(250) {
			p.reply(id - i)
		}
	}
	grown := heap() - before
	says := fmt.Sprintf("250 binds take %v, %d later %v; another client's ping %v; %d bytes grown", first, many, last,
		worst, grown)
	if t.Log(says); last > 5*first+5*time.Millisecond || grown > 5<<20 {
		t.Error("refused binds are kept, and looked through for each")
	}
}
