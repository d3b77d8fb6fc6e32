package pathlockd

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestCancelsOfAServerThatStandsStill: callers wait for locks, each with a time of its own, as a server stands still
// for a few seconds. One cancel a wait is what there is to tell.
func TestCancelsOfAServerThatStandsStill(t *testing.T) {
	limits := testLimits
	limits.InFlight, limits.Waiting = 1024, 16_384 // as servers say
	for _, n := range []int{500, 1000, 2000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.limited(limits)
				var still atomic.Bool
				go p.serve(func(a *asked) *wire.Result {
					switch {
					case still.Load():
						return nil
					case a.req.Op == wire.OpAcquire:
						return nil // somebody else has it
					}
					return granted(a.req)
				})
				var before, after runtime.MemStats
				var wg sync.WaitGroup
				pass(time.Second)
				still.Store(true)
				for i := range n {
					wg.Go(func() {
						after := time.Second + time.Duration(i)*7*time.Second/time.Duration(n)
						ctx, cancel := context.WithTimeout(context.Background(), after)
						defer cancel()
						if _, err := c.Lock(ctx, fmt.Sprintf("a:/n/%d", i)); err == nil {
							t.Error("granted")
						}
					})
				}
				pass(500 * time.Millisecond)
				runtime.GC()
				runtime.ReadMemStats(&before)
				wg.Wait()
				pass(0)
				runtime.GC()
				runtime.ReadMemStats(&after)
				s := &c.home.session
				s.mu.Lock()
				cancels := 0
				for one := s.mu.urgent.first; one != nil; one = one.next {
					if one.op == wire.OpCancel {
						cancels++
					}
				}
				s.mu.Unlock()
				// Then it goes on elsewhere.
				told := make(chan int, 1)
				go func() {
					p := f.open()
					all := 0
					p.serve(func(a *asked) *wire.Result {
						if a.req.Op == wire.OpCancel {
							all++
							p.reply(a.req.Target, wire.OpAcquire,
								&wire.Result{Code: wire.Cancelled, Message: "cancelled"})
						}
						return granted(a.req)
					})
					told <- all
				}()
				p.Close()
				pass(time.Minute)
				must(t, c.Close())
				all := <-told
				if cancels > 4*n || all > n+n/10 {
					more := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) >> 20
					t.Errorf("%d waits given up: %d cancels wait to be sent, %d MiB more in use, %d cancels told", n,
						cancels, more, all)
				}
			})
		})
	}
}
