package pathlockd

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// echo is a server that grants everything and does nothing: a goroutine for each
// connection, one write for each read. It costs what a client cannot do without.
func echo(b *testing.B) string {
	b.Helper()
	return echoAs(b, "echo", nil)
}

// echoAs is echo by a name, which tells a topology.
func echoAs(b *testing.B, node string, top *wire.Topology) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go echoConn(nc, node, top)
		}
	}()
	return l.Addr().String()
}

func echoConn(nc net.Conn, node string, top *wire.Topology) {
	defer nc.Close()
	in, out := make([]byte, 64<<10), []byte(nil)
	have := 0
	var req wire.Request
	ok := &wire.Result{Token: 12345, Namespace: "bench:/a"}
	welcome := &wire.Result{List: &wire.List{Welcome: &wire.Welcome{Version: 1, NodeID: node, Limits: testLimits}}}
	for {
		n, err := nc.Read(in[have:])
		if err != nil {
			return
		}
		have += n
		used := 0
		for {
			payload, size, _, _ := wire.NextFrame(in[used:have], wire.MaxFrameBytes)
			if size == 0 {
				break
			}
			id, _, _, _ := wire.DecodeRequest(payload, &req)
			switch req.Op {
			case wire.OpHello:
				out = wire.AppendReply(out, id, req.Op, welcome)
			case wire.OpTopology:
				out = wire.AppendReply(out, id, req.Op, &wire.Result{List: &wire.List{Topology: top}})
			default:
				out = wire.AppendReply(out, id, req.Op, ok)
			}
			used += size
		}
		have = copy(in, in[used:have])
		if _, err := nc.Write(out); err != nil {
			return
		}
		out = out[:0]
	}
}

// acquireOf is the request that benchmarks ask.
func acquireOf(i int) *wire.Request {
	return &wire.Request{
		Op: wire.OpAcquire, Owner: "bench-owner-1", TTLMillis: 30_000, Flags: wire.FlagNoQueue,
		Locks: []wire.LockRequest{{Path: fmt.Sprintf("bench:/a/project/%d", i)}},
	}
}

// BenchmarkGo is the asynchronous form with so many requests in flight on one
// connection, each answer bringing forth the next request.
func BenchmarkGo(b *testing.B) {
	for _, depth := range []int{1, 16, 64, 224} {
		b.Run(fmt.Sprintf("inflight=%d", depth), func(b *testing.B) {
			c := dial(b, echo(b))
			req := acquireOf(1)
			var left atomic.Int64
			left.Store(int64(b.N))
			var done sync.WaitGroup
			var next func(*wire.Result, error)
			next = func(res *wire.Result, err error) {
				if err != nil {
					b.Error(err)
				}
				if left.Add(-1) < 0 {
					done.Done()
					return
				}
				c.Go(req, next)
			}
			b.ReportAllocs()
			b.ResetTimer()
			done.Add(depth)
			for range depth {
				c.Go(req, next)
			}
			done.Wait()
		})
	}
}

// BenchmarkDo is the waiting form, by so many goroutines on one connection.
func BenchmarkDo(b *testing.B) {
	for _, workers := range []int{1, 16, 64, 224} {
		b.Run(fmt.Sprintf("goroutines=%d", workers), func(b *testing.B) {
			c := dial(b, echo(b))
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ReportAllocs()
			b.ResetTimer()
			var done sync.WaitGroup
			for range workers {
				done.Go(func() {
					req := acquireOf(1)
					for left.Add(-1) >= 0 {
						if _, err := c.Do(context.Background(), req); err != nil {
							b.Error(err)
						}
					}
				})
			}
			done.Wait()
		})
	}
}

// BenchmarkLanes is BenchmarkDo against two nodes that lead half of the groups each.
func BenchmarkLanes(b *testing.B) {
	const groups = 256
	top := &wire.Topology{Version: 1, GroupLogs: groups, Segments: 1, Leaders: []string{"n0", "n1"}}
	for g := range groups {
		top.LogOf = append(top.LogOf, uint64(g%2))
	}
	n1 := echoAs(b, "n1", nil)
	top.Nodes = []wire.NodeAddr{{NodeID: "n1", Native: n1}}
	n0 := echoAs(b, "n0", top)
	for _, workers := range []int{1, 16, 224} {
		b.Run(fmt.Sprintf("goroutines=%d", workers), func(b *testing.B) {
			c := dial(b, n0)
			ask := func(i int) error {
				req := acquireOf(i)
				req.Locks[0].Path = fmt.Sprintf("bench:/%d/x", i)
				_, err := c.Do(context.Background(), req)
				return err
			}
			eventually(b, "two lanes", func() bool {
				for i := range 8 {
					must(b, ask(i))
				}
				return len(c.router.all()) == 2
			})
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ReportAllocs()
			b.ResetTimer()
			var done sync.WaitGroup
			for w := range workers {
				done.Go(func() {
					req := acquireOf(1)
					req.Locks[0].Path = fmt.Sprintf("bench:/%d/x", w)
					for left.Add(-1) >= 0 {
						if _, err := c.Do(context.Background(), req); err != nil {
							b.Error(err)
						}
					}
				})
			}
			done.Wait()
		})
	}
}

// BenchmarkLock takes a lock and gives it back, of an owner of its own and of one that the program names.
func BenchmarkLock(b *testing.B) {
	for name, opts := range map[string][]LockOption{"own": nil, "named": {Owner("me")}} {
		b.Run(name, func(b *testing.B) {
			c, ctx := dial(b, echo(b)), context.Background()
			b.ReportAllocs()
			for b.Loop() {
				l, err := c.TryLock(ctx, "bench:/a/project/1", opts...)
				if err == nil {
					err = l.Unlock()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
