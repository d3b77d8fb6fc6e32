package groups

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pathlockd/pathlockd/wire"
)

// BenchmarkLongestHold says for how long a log with 300 000 leases tied to one session, 50 000
// sessions and 100 000 waits holds the lock that entries are applied under, at most: at the end
// of that session's connection, by checkpoints, and by snapshots.
func BenchmarkLongestHold(b *testing.B) {
	const leases, guests, waits = 300_000, 50_000, 100_000
	l := defaultLimits()
	l.MaxQueued = 8 * waits
	m := newBare(b, firstLogShard, l)
	fill := func(n int, one func(i int) *bareCall) {
		var asks []*bareCall
		for i := range n {
			if asks = append(asks, one(i)); len(asks) == maxBatchCommands || i == n-1 {
				m.do(1, asks...)
				asks = asks[:0]
			}
		}
	}
	crowd := bareSession(0)
	fill(leases, func(i int) *bareCall {
		a := bareAsk(crowd, uint64(i)+1, write(fmt.Sprintf("o%d", i), fmt.Sprintf("h:/a/%d", i), time.Hour))
		a.Bound, a.Grace = true, 500
		return a
	})
	fill(waits, func(i int) *bareCall {
		req := waiting(write(fmt.Sprintf("w%d", i), "h:/a/0", time.Hour))
		req.QueueTTLMillis = 3_600_000
		return bareAsk(bareSession(guests+1+i%1000), uint64(i)+1, req)
	})
	ask := uint64(1)
	guest := func(i int) *bareCall {
		s := bareSession(1 + i)
		s.Window = 16
		return bareAsk(s, ask, &wire.Request{Op: wire.OpRenew, Owner: "nobody", TTLMillis: 1000})
	}
	for ; ask < 16; ask++ {
		fill(guests, guest)
	}
	var longest time.Duration
	// hold is one hold of the lock, by what it takes of the processor: others run here too.
	hold := func(f func()) {
		began := threadTime(b)
		f()
		longest = max(longest, threadTime(b)-began)
	}
	most := make(map[string]time.Duration) // the leases are there once
	during := func(what string, f func()) {
		longest = 0
		f()
		most[what] = max(most[what], longest)
		b.ReportMetric(float64(most[what].Microseconds())/1e3, what+"-ms")
	}
	encode := func(im *sessionImage) {
		for whole := false; !whole; {
			hold(func() { whole = im.encode() })
		}
	}
	ends := func() {
		for due := m.m.order[0].due; due != 0 && due <= m.now; due = m.m.order[0].due {
			hold(func() { m.do(0) })
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.ResetTimer()
	for range b.N {
		during("checkpoint", func() {
			var im *image
			hold(func() { im = m.m.capture() })
			encode(im.sessions)
			for i := range im.groups {
				hold(func() { im.groups[i].g.state.Written(im.groups[i].view.Mark()) })
			}
		})
		ask++
		fill(guests, guest)
		during("snapshot", func() {
			var f *frozen
			hold(func() { f = m.m.freeze(true) })
			encode(f.owed[len(f.owed)-1])
			if err := f.disk.Close(); err != nil {
				b.Fatal(err)
			}
		})
		during("connection", func() {
			hold(func() { m.do(1, bareAsk(crowd, 0, &wire.Request{Op: wire.OpDetach})) })
			ends()
		})
		during("leases", func() {
			hold(func() { m.do(600) })
			ends()
		})
	}
}

// threadTime is what this thread took of the processor so far.
func threadTime(b *testing.B) time.Duration {
	b.Helper()
	var used unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Nano())
}
