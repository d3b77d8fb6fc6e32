package link

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/raftio"
)

// BenchmarkLink sends batches of 1, and of 64 messages, of 128 bytes.
func BenchmarkLink(b *testing.B) {
	for _, n := range []int{1, 64} {
		one := batch(1, 128)
		for len(one.Requests) < n {
			one.Requests = append(one.Requests, one.Requests[0])
		}
		b.Run(fmt.Sprintf("messages=%d", n), func(b *testing.B) {
			from, to := open(b, 1), open(b, 2)
			c := from.to(b, to)
			b.ReportAllocs()
			b.ResetTimer()
			go func() {
				for range b.N {
					if err := c.SendMessageBatch(one); err != nil {
						b.Error(err)
						return
					}
				}
			}()
			for range b.N {
				<-to.batches
			}
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

// BenchmarkRoundTrip is there and back, one at a time.
func BenchmarkRoundTrip(b *testing.B) {
	one, other := open(b, 1), open(b, 2)
	there, back := one.to(b, other), other.to(b, one)
	m := batch(1, 128)
	b.ResetTimer()
	for range b.N {
		if there.SendMessageBatch(m) != nil {
			b.Fatal("not sent")
		}
		<-other.batches
		if back.SendMessageBatch(m) != nil {
			b.Fatal("not sent")
		}
		<-one.batches
	}
}

// BenchmarkPropose is a proposal through three of dragonboat's hosts, in memory, over
// links and over dragonboat's own TCP without TLS (which cannot be used without a host).
func BenchmarkPropose(b *testing.B) {
	for _, own := range []bool{false, true} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("own=%v/callers=%d", own, callers), func(b *testing.B) { benchPropose(b, own, callers) })
		}
	}
}

func benchPropose(b *testing.B, own bool, callers int) {
	bk := &book{addrs: make(map[string]string), who: make(map[raftio.NodeInfo]string)}
	hosts := make(map[uint64]*dragonboat.NodeHost)
	for n := range 3 {
		hosts[uint64(n+1)], _ = host(b, n+1, bk, nil, own)
	}
	var id uint64
	eventually(b, "a leader", func() bool {
		l, _, ok, err := hosts[1].GetLeaderID(1)
		id = l
		return ok && err == nil
	})
	h := hosts[id]
	propose := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, err := h.SyncPropose(ctx, h.GetNoOPSession(1), binary.BigEndian.AppendUint64(make([]byte, 0, 128), 1)[:128])
		return err
	}
	eventually(b, "a proposal", func() bool { return propose() == nil })
	b.ResetTimer()
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for n := i; n < b.N; n += callers {
				if err := propose(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "proposals/s")
}
