package pathlockd

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv2CloseAtADrainingNode: Close gives back what the client holds, for which it has a second.
// A node that is about to stop refuses that, as surely not done, and does not end leases with
// its connections; another one would take it. It is not asked again, and the lock stays for
// its TTL, though a crash would have freed it after the grace.
func TestAdv2CloseAtADrainingNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t)
		f.addr = "fake:1,fake:2"
		c, p := f.client()
		held := make(chan *Lock, 1)
		go func() {
			l, err := c.Lock(t.Context(), "a:/b/c", TTL(time.Hour))
			held <- mustLock(t, l, err)
		}()
		p.ok(p.want(wire.OpAcquire))
		<-held
		closed := make(chan struct{})
		go func() {
			_ = c.Close()
			close(closed)
		}()
		r := p.want(wire.OpRelease)
		p.refuse(r, wire.Unavailable) // it drains, and says so when all are answered
		released := make(chan *asked, 16)
		take := func(p *peer) {
			p.serve(func(a *asked) *wire.Result {
				if a.req.Op == wire.OpRelease {
					released <- a
				}
				return granted(a.req)
			})
		}
		go func() {
			p.send(wire.AppendGoodbye(nil, wire.Errorf(wire.Unavailable, "the node is shutting down")))
			p.Close()
		}()
		go func() {
			select {
			case p := <-f.conns:
				p.welcome(testLimits)
				take(p)
			case <-t.Context().Done():
			}
		}()
		<-closed
		pass(time.Second)
		select {
		case <-released:
		default:
			t.Fatal("Close answered, and its release was refused as surely not done: nobody gives the lock back")
		}
	})
}
