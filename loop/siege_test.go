package loop_test

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// bystander is a client that locks and unlocks while others misbehave.
type bystander struct {
	t     testing.TB
	end   context.CancelFunc
	done  chan struct{}
	count atomic.Int64 // pairs of acquire and release
	worst time.Duration
}

// worstWait is how long a bystander may wait for one answer. It is far above what
// is usual and far below what being held up by a peer would take: tests run beside
// others on few processors.
const worstWait = 20 * time.Second

// undisturbed starts a client that must notice nothing until stop.
func undisturbed(t testing.TB, addr net.Addr) *bystander {
	t.Helper()
	p := join(t, addr)
	ctx, cancel := context.WithCancel(t.Context())
	b := &bystander{t: t, end: cancel, done: make(chan struct{})}
	owner := named("bystander")
	path := owner + ":/n/x"
	timed := func(reqs ...*wire.Request) bool {
		began := time.Now()
		frames, ids := p.encode(reqs...)
		p.conn.SetWriteDeadline(time.Now().Add(patience))
		if _, err := p.conn.Write(frames); err != nil {
			t.Errorf("a bystander cannot write: %v", err)
			return false
		}
		for _, id := range ids {
			for {
				if res, ok := p.replies[id]; ok {
					delete(p.replies, id)
					if err := res.Err(); err != nil || res.Status != wire.StatusOK {
						t.Errorf("a bystander is refused: %v, %v", err, res.Status)
						return false
					}
					break
				}
				if err := p.step(); err != nil {
					t.Errorf("a bystander's connection broke: %v, %v", err, p.goodbye())
					return false
				}
			}
		}
		b.worst = max(b.worst, time.Since(began))
		return true
	}
	go func() {
		defer close(b.done)
		defer p.hangUp()
		pace := time.NewTicker(2 * time.Millisecond) // the log is in memory too
		defer pace.Stop()
		for ctx.Err() == nil && timed(write(owner, path), ping()) && timed(release(owner, path)) {
			p.order = p.order[:0]
			b.count.Add(1)
			<-pace.C
		}
	}()
	t.Cleanup(b.wait)
	return b
}

func (b *bystander) wait() {
	b.end()
	<-b.done
}

// stop ends the client, and says how it fared.
func (b *bystander) stop() {
	b.t.Helper()
	b.wait()
	pairs := b.count.Load()
	b.t.Logf("a bystander made %d acquire and release pairs, none refused; longest wait %v", pairs,
		b.worst.Round(time.Microsecond))
	if pairs == 0 || b.worst > worstWait {
		b.t.Errorf("a bystander made %d pairs and waited for up to %v", pairs, b.worst)
	}
}

// siege is a test of a server under attack: a bystander, and an eye on the heap.
type siege struct {
	t      *testing.T
	s      *server
	other  *bystander
	before int64
	end    chan struct{}
	ended  chan struct{}
	peak   uint64
	rows   int64 // bytes of what is locked that stay in the databases' memory
}

func besiege(t *testing.T, opt loop.Options) *siege {
	t.Helper()
	s := serve(t, opt)
	g := &siege{t: t, s: s, other: undisturbed(t, s.tcp), end: make(chan struct{}), ended: make(chan struct{})}
	// Collected often, so that what is seen alive is what there is, however slow the
	// machine is and however much others left behind.
	pace := debug.SetGCPercent(20)
	t.Cleanup(func() { debug.SetGCPercent(pace) })
	g.before = heap()
	go func() {
		defer close(g.ended)
		look := time.NewTicker(time.Millisecond)
		defer look.Stop()
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		for {
			metrics.Read(sample)
			g.peak = max(g.peak, sample[0].Value.Uint64())
			select {
			case <-g.end:
				return
			case <-look.C:
			}
		}
	}()
	return g
}

// over ends the siege: the bystander noticed nothing, what is alive on the heap never grew
// by more than most, the attackers' own memory included, and is as it was once the
// attackers are gone.
func (g *siege) over(most int64) {
	g.t.Helper()
	g.other.stop()
	eventually(g.t, "all connections are gone", func() bool { return g.s.Connections() == 0 })
	close(g.end)
	<-g.ended
	left := g.rows + 8<<20 // the bystander's locks are in the databases' memory too: some KiB a pair
	peak, after := int64(g.peak)-g.before, int64(0)
	for range 100 { // what took leave may be on its way out still
		if after = heap() - g.before; after <= left {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	g.t.Logf("heap: %.1f MiB before, at most %+.1f MiB during, %+.1f MiB after", mib(g.before), mib(peak), mib(after))
	if peak > most {
		g.t.Errorf("the heap grew by %.1f MiB, want at most %.1f", mib(peak), mib(most))
	}
	if after > left {
		g.t.Errorf("%.1f MiB of heap are left behind, want at most %.1f; what is alive:\n%s", mib(after),
			mib(left), alive(40))
	}
}

// alive lists who allocated most of what is on the heap.
func alive(lines int) string {
	records := make([]runtime.MemProfileRecord, 10_000)
	n, _ := runtime.MemProfile(records, false)
	records = records[:min(n, len(records))]
	slices.SortFunc(records, func(a, b runtime.MemProfileRecord) int {
		return cmp.Compare(b.InUseBytes(),
			a.InUseBytes())
	})
	var b strings.Builder
	for _, r := range records[:min(lines, len(records))] {
		fmt.Fprintf(&b, "%7.2f MiB", mib(r.InUseBytes()))
		frames := runtime.CallersFrames(r.Stack())
		for range 6 {
			f, more := frames.Next()
			fmt.Fprintf(&b, " %s:%d", f.Function, f.Line)
			if !more {
				break
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func mib(b int64) float64 { return float64(b) / (1 << 20) }
