package pathlockd

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestARepeatedWaitOverTheLimit: more callers wait for a lock than the server takes waits of a connection
// (limits.waiting), so that some wait aside. The server does not know what became of one (code 4, as when a log was
// without a leader): its place is taken by one of those aside, and it is asked again. It has to wait for a place; what
// ends the waits, the release of the lock that they wait for, has not. (New waits go aside for that.)
func TestARepeatedWaitOverTheLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		limits := testLimits
		limits.Waiting, limits.Answers = 2, 1024 // 16 384 waits of a real one
		f := newFake(t)
		var mu sync.Mutex // of what follows: requests come until the end
		released, renewed := time.Time{}, 0
		settled := uint64(0)
		var waits []*asked
		serve := func(p *peer) {
			p.serve(func(a *asked) *wire.Result {
				mu.Lock()
				defer mu.Unlock()
				if a.req.Op != wire.OpPing { // which tells of no repeats
					settled = max(settled, a.req.Settled)
				}
				switch {
				case a.req.Op == wire.OpAcquire && a.req.Flags&wire.FlagWait != 0:
					waits = append(waits, a)
					return nil
				case a.req.Op == wire.OpRelease:
					released = time.Now()
				case a.req.Op == wire.OpRenew:
					renewed++
				}
				return granted(a.req)
			})
		}
		conns := make(chan *peer, 64)
		over := t.Context().Done()
		go func() {
			for {
				select {
				case p := <-f.conns:
					p.welcome(limits)
					conns <- p
					go serve(p)
				case <-over:
					return
				}
			}
		}()
		c := dial(t, f.addr, WithDialer(f.dial))
		p := <-conns
		l, err := c.TryLock(context.Background(), "a:/n/p")
		mustLock(t, l, err)
		ctx, leave := context.WithCancel(context.Background())
		defer leave()
		for range 3 {
			go func() { _, _ = c.Lock(ctx, "a:/n/p") }()
			pass(time.Millisecond)
		}
		came := func() []*asked { mu.Lock(); defer mu.Unlock(); return waits }
		if n := len(came()); n != 2 {
			t.Fatalf("%d waits came", n)
		}
		first := came()[0].id
		p.reply(first, wire.OpAcquire, &wire.Result{Code: wire.DeadlineExceeded, Message: "the outcome is not known"})
		pass(100 * time.Millisecond)
		if n := len(came()); n != 3 {
			t.Fatalf("%d waits came", n)
		}
		for range 2 * settledEvery {
			must(t, c.Release(context.Background(), "o", []wire.ReleaseRequest{{Path: "a:/n/q"}}, false, ""))
		}
		mu.Lock()
		if settled > first {
			t.Errorf("the server may forget all below %d, and %d is to be asked again", settled, first)
		}
		mu.Unlock()
		pass(45 * time.Second) // of a TTL of 30 s
		if err := l.Err(); err != nil {
			mu.Lock()
			t.Errorf("after 45 s, and %d renewals: %v; connections: %d", renewed, err, len(conns)+1)
			mu.Unlock()
		}
		err = l.Unlock()
		pass(time.Minute)
		mu.Lock()
		if err != nil || released.IsZero() {
			t.Errorf("Unlock: %v; a release came: %v", err, !released.IsZero())
		}
		mu.Unlock()
		leave()
		pass(time.Minute)
		must(t, c.Close())
	})
}
