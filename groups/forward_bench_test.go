package groups

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// benchRig starts a node on disks in memory.
func benchRig(b *testing.B) *rig {
	r := &rig{t: &testing.T{}}
	raft, state := memDisks()
	n, err := Open(Config{
		DataDir: b.TempDir(), Bootstrap: true, Segments: 1, GroupCount: 16, LogCount: 1, RaftAddr: freeAddr(b),
		RaftFS: raft, FS: state, ElectionMin: 300 * time.Millisecond, Heartbeat: 50 * time.Millisecond,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { n.Close(0) })
	if !n.WaitReady(90 * time.Second) {
		b.Fatal("not ready")
	}
	r.node = n
	r.live.Store(n)
	return r
}

// BenchmarkLone is one request at a time on the node that leads.
func BenchmarkLone(b *testing.B) { lone(b, benchRig(b)) }

func lone(b *testing.B, r *rig) {
	c := r.session()
	acquire, free := write("o", "h:/a/b", time.Hour), release("o", "h:/a/b")
	to := make(chanReplier, 1)
	calls := [2]*wire.Call{{Op: acquire.Op, Req: acquire}, {Op: free.Op, Req: free}}
	for _, call := range calls {
		call.Body, call.NArgs = wire.AppendArgs(nil, call.Req)
		call.Session, call.To = c.session, to
	}
	bodies := [2][]byte{calls[0].Body, calls[1].Body}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		call := calls[i&1]
		call.ID, call.Body = r.next.Add(1), bodies[i&1]
		r.node.Serve(calls[i&1 : i&1+1])
		if res := <-to; res.Code != wire.OK || res.Status != wire.StatusOK {
			b.Fatalf("%+v", res)
		}
	}
}

// BenchmarkBatch is many requests at once.
func BenchmarkBatch(b *testing.B) { batch(b, benchRig(b)) }

func batch(b *testing.B, r *rig) {
	const width = 256
	c := r.session()
	to := make(chanReplier, width)
	var calls [2][]*wire.Call
	var bodies [2][][]byte
	for i := range width {
		path := fmt.Sprintf("h:/a%d/b", i)
		for j, req := range []*wire.Request{write("o", path, time.Hour), release("o", path)} {
			call := &wire.Call{Op: req.Op, Req: req, Session: c.session, To: to}
			call.Body, call.NArgs = wire.AppendArgs(nil, req)
			calls[j], bodies[j] = append(calls[j], call), append(bodies[j], call.Body)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += width {
		round := calls[i/width&1]
		for j, call := range round {
			call.ID, call.Body = r.next.Add(1), bodies[i/width&1][j]
		}
		r.node.Serve(round)
		for range width {
			if res := <-to; res.Code != wire.OK || res.Status != wire.StatusOK {
				b.Fatalf("%+v", res)
			}
		}
	}
}

// spread is three nodes that all hold one log, and the one of them that leads it, or does
// not.
func spread(b *testing.B, leads bool) *rig {
	f := newLocalCluster(b, 3, func(_ int, c *Config) { c.LogCount, c.EvictionWindow = 1, time.Hour })
	f.settle(3)
	at := f.leader("h:/a/b")
	if !leads {
		at = (at + 1) % 3
	}
	return f.rigOn(at)
}

// BenchmarkSpread is requests at a node of three: at the one that leads, and at one that
// forwards.
func BenchmarkSpread(b *testing.B) {
	for name, leads := range map[string]bool{"direct": true, "forwarded": false} {
		b.Run("lone/"+name, func(b *testing.B) { lone(b, spread(b, leads)) })
		b.Run("batch/"+name, func(b *testing.B) { batch(b, spread(b, leads)) })
	}
}

// chanReplier takes results.
type chanReplier chan wire.Result

func (r chanReplier) Reply(c *wire.Call)            { r <- c.Res }
func (chanReplier) Queued(*wire.Call, *wire.Result) {}
func (chanReplier) Flush()                          {}
