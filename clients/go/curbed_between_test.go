package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestARenewalOfOnesOwnBetweenConfirmAndHold: a lock is granted while the program renews its owner everywhere for two
// seconds; so it is confirmed first. That renewal is carried out, then the program's ("nothing else is ordered"), and
// both answers are 1.5 s on their way: the program's comes first. Then the server is not heard any more.
func TestARenewalOfOnesOwnBetweenConfirmAndHold(t *testing.T) {
	const short, slow = 2 * time.Second, 1500 * time.Millisecond
	bubble(t, func(t *testing.T) {
		ctx := context.Background()
		f := newFake(t)
		c, p := f.client(WithKeepAlive(time.Hour))
		locked := make(chan *Lock, 1)
		go func() {
			l, err := c.TryLock(ctx, "a:/b/c", Owner("me"), TTL(time.Minute))
			if err != nil {
				t.Error(err)
			}
			locked <- l
		}()
		acquire := p.want(wire.OpAcquire)
		go func() { _, _ = c.Renew(ctx, "me", short, "", 0) }()
		own := p.want(wire.OpRenew)
		p.ok(acquire)
		confirm := p.want(wire.OpRenew)
		if own.req.Flags&wire.FlagExtend != 0 || confirm.req.Flags&wire.FlagExtend == 0 {
			t.Fatal("this shows nothing")
		}
		carried := time.Now().Add(time.Millisecond) // out: the program's, behind the client's
		pass(slow)
		p.ok(own)
		pass(time.Millisecond)
		p.ok(confirm)
		go p.serve(func(a *asked) *wire.Result { return nil }) // but for what the owner holds, which it holds yet
		l := <-locked
		if l == nil {
			t.Fatal("no lock")
		}
		over := carried.Add(short)
		t.Logf("over in %v, believed in for %v", time.Until(over), time.Until(l.Deadline()))
		pass(time.Until(over) + 10*time.Millisecond)
		if err := l.Err(); err == nil {
			t.Errorf("its lease was over %v ago, and it counts as held for %v more", time.Since(over),
				time.Until(l.Deadline()))
		}
	})
}
