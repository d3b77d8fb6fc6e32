package pathlockd

import (
	"context"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAPlaceIsKeptBesideAWaitWithoutRoom: two callers wait. The connection breaks, and the next server takes one wait
// of a connection, so the other's stays to be asked again; the first has its place, and is told so. Minutes later that
// connection breaks too. The first is asked again in its session under its id at once, and keeps its place.
func TestAPlaceIsKeptBesideAWaitWithoutRoom(t *testing.T) {
	for name, waiting := range map[string]uint64{"room for both": 2, "room for one": 1} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t)
				c, p := f.client(WithKeepAlive(10 * time.Second))
				queued := func(p *peer, a *asked) {
					p.send(wire.AppendQueued(nil,
						&wire.Queued{ID: a.id, Result: wire.Result{Status: wire.StatusQueued, Position: 1}}))
				}
				bg := context.Background()
				lock := func(path string) *asked {
					go func() { _, _ = c.Lock(bg, path) }()
					a := p.want(wire.OpAcquire)
					queued(p, a)
					return a
				}
				first := lock("a:/b/p")
				lock("a:/b/q")
				limits := testLimits
				limits.Waiting = waiting
				reconnect := func() (p *peer, asked1 *asked) {
					p = f.accept()
					p.welcome(limits)
					asked1 = p.want(wire.OpAcquire)
					queued(p, asked1)
					if waiting > 1 {
						queued(p, p.want(wire.OpAcquire))
					}
					return p, asked1
				}
				p.Close()
				p, again := reconnect()
				if again.id != first.id {
					t.Fatalf("request %d is repeated as %d", first.id, again.id)
				}
				session := string(p.hello.Session)
				go p.serve(func(a *asked) *wire.Result { return granted(a.req) }) // pings
				pass(2 * time.Minute)
				p.Close()
				p = f.accept()
				p.welcome(limits)
				again = p.next()
				if string(p.hello.Session) != session || again.id != first.id {
					t.Errorf("the session that waits, and asks for signs of life all the time, is given up: the "+
						"first request is %v %d, "+
						"want acquire %d again; its place is lost", again.req.Op, again.id, first.id)
				}
				queued(p, again)
				go p.serve(func(a *asked) *wire.Result { return granted(a.req) })
				must(t, c.Close())
			})
		})
	}
}
