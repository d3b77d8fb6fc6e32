package pathlockd

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestResentRenewalOfWatched: a renewal of a lease whose owner's events are told is under way when the connection
// breaks. Meanwhile the owner is killed, and another client of the owner takes something: the renewal is asked again
// on the next connection, and finds that one's lease. Nobody tells of the kill (subscribe is refused, as the log has
// no leader), and looks are refused. So the renewal does not count.
func TestResentRenewalOfWatched(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const ttl = 30 * time.Second
		f := newFake(t)
		c, p := f.telling(WithGrace(longGrace))
		p.lists = true
		var good atomic.Int64 // when the last renewal of its lease came
		var hold atomic.Bool
		held := make(chan struct{}, 9)
		// Answers take a while: what is asked again and again would take no time otherwise.
		soon := func(p *peer, a *asked, res *wire.Result) {
			time.AfterFunc(time.Millisecond, func() { p.reply(a.id, a.req.Op, res) })
		}
		go p.serve(func(a *asked) *wire.Result {
			switch {
			case hold.Load() && a.req.Op == wire.OpRenew:
				held <- struct{}{}
			case a.req.Op == wire.OpListLocks:
				soon(p, a, p.taken.of(a.req.Owner))
			case a.req.Op == wire.OpRenew:
				good.Store(a.at.UnixNano())
				fallthrough
			default:
				soon(p, a, granted(a.req))
			}
			return nil
		})
		l, err := c.TryLock(t.Context(), "a:/b/c", Owner("me"), TTL(ttl))
		mustLock(t, l, err)
		pass(5 * time.Second)
		must(t, l.Err())
		hold.Store(true)
		over := make(chan struct{})
		defer close(over)
		go func() {
			for {
				var q *peer
				select {
				case q = <-f.conns:
				case <-over:
					return
				}
				q.lists = true
				q.welcome(testLimits)
				go q.serve(func(a *asked) *wire.Result {
					switch a.req.Op {
					case wire.OpListLocks, wire.OpSubscribe:
						soon(q, a, &wire.Result{Code: wire.Unavailable})
					default:
						soon(q, a, granted(a.req))
					}
					return nil
				})
			}
		}()
		<-held
		p.Close()
		for range 800 {
			pass(100 * time.Millisecond)
			if over := l.Deadline().Sub(time.Unix(0, good.Load()).Add(ttl)); l.Err() == nil && over > 0 {
				t.Fatalf("it is believed in for %v longer than by the last renewal of its lease", over)
			}
			if l.Err() != nil {
				break
			}
		}
	})
}
