package pathlockd

import (
	"testing"
	"time"
)

// TestAnUnbindUntiesAWait: an owner is bound, and a lock of its waits for its turn. It is unbound, which is answered;
// the other one gives the path back, and the lock is granted. Then the program crashes: its connection ends, and nobody
// asks for anything any more. "Locks hang on the connection: a program that crashes frees them when the grace is over
// (WithGrace), and not only when their TTL is."
func TestAnUnbindUntiesAWait(t *testing.T) {
	for name, unbinds := range map[string]int{"bound": 0, "unbound once": 1, "unbound again": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t, patience)
			line := new(lossyLine)
			addr := server(t)
			c, other := dial(t, addr, WithDialer(line.dial), WithGrace(3*time.Second)), dial(t, addr)
			p, owner := path(t, "/a/p"), t.Name()
			theirs, err := other.Lock(ctx, p)
			mustLock(t, theirs, err)
			_, err = c.Bind(ctx, owner, 3*time.Second, 0)
			must(t, err)
			if unbinds == 2 { // and once more below
				must(t, c.Unbind(ctx, owner))
			}
			queued := make(chan struct{}, 8)
			got := make(chan *Lock, 1)
			go func() {
				l, err := c.Lock(ctx, p, Owner(owner), TTL(time.Hour), OnQueued(func(Queued) { queued <- struct{}{} }))
				if err != nil {
					t.Error(err)
				}
				got <- l
			}()
			<-queued
			if unbinds > 0 {
				must(t, c.Unbind(ctx, owner))
			}
			time.Sleep(50 * time.Millisecond)
			must(t, theirs.Unlock())
			l := <-got
			if l == nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
			t.Logf("sure for %v", time.Until(l.Deadline()))
			Ends(line)
			defer line.held.Unlock()
			began := time.Now()
			if _, err := other.Lock(within(t, 12*time.Second), p); err != nil {
				t.Errorf("the program has crashed, its grace is 3 s, and its lock is not free %v later: %v",
					time.Since(began), err)
				return
			}
			t.Logf("free after %v", time.Since(began))
		})
	}
}
