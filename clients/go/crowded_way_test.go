package pathlockd

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAReleaseBehindWaitsWithoutRoom: a lock is held, and two more callers have just asked to wait for it, when the
// node that leads its namespace dies before it told them their places. The next leader takes one wait of a connection
// (limits.waiting). What ends the first wait is the holder's release: it must not be held back for the second one,
// which waits for room.
func TestAReleaseBehindWaitsWithoutRoom(t *testing.T) {
	for name, waiting := range map[string]uint64{"room for both": 2, "room for one": 1} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFakeCluster(t, 2, 1, 1, 1, 1)
				f.waiting = map[string]uint64{"n0": waiting}
				c := f.client()
				f.warm(c)
				bg := context.Background()
				l, err := c.Lock(bg, in(0))
				mustLock(t, l, err)
				other, err := c.Lock(bg, in(0)+"2") // nobody else wants it
				mustLock(t, other, err)
				if at := f.last(wire.OpAcquire).node; at != "n1" {
					t.Fatalf("taken at %s", at)
				}
				// A server of one path: who waits is granted it in turn.
				type place struct {
					p *peer
					a *asked
				}
				var queue []place
				released, taken := 0, true
				f.serve = func(p *peer, a *asked) *wire.Result {
					f.mu.Lock()
					defer f.mu.Unlock()
					switch {
					case p.node == "n1" && a.req.Op == wire.OpAcquire:
						return nil // it dies before it answers
					case a.req.Op == wire.OpAcquire:
						again := slices.IndexFunc(queue, func(q place) bool {
							return q.a.id == a.id && string(q.p.hello.Session) == string(p.hello.Session)
						})
						switch {
						case again >= 0: // it keeps its place
							queue[again] = place{p, a}
						case !taken: // the one before gave it back before this one came
							taken = true
							return granted(a.req)
						default:
							queue = append(queue, place{p, a})
						}
						p.send(wire.AppendQueued(nil,
							&wire.Queued{ID: a.id, Result: wire.Result{Status: wire.StatusQueued, Position: 1}}))
						return nil
					case a.req.Op == wire.OpRelease:
						released++
						if taken = len(queue) > 0; taken {
							next := queue[0]
							queue = queue[1:]
							go next.p.ok(next.a)
						}
					}
					return granted(a.req)
				}
				got := make(chan error, 2)
				for range 2 {
					go func() {
						l, err := c.Lock(bg, in(0))
						if err == nil {
							err = l.Unlock()
						}
						got <- err
					}()
				}
				pass(time.Millisecond)
				f.kill("n1")
				f.lead(0, 0, 0, 0)
				f.tell()
				pass(10 * time.Second)
				if err := l.Unlock(); err != nil {
					t.Errorf("the holder gives the lock back: %v", err)
				}
				for i := range 2 {
					select {
					case err := <-got:
						if err != nil {
							t.Errorf("waiter %d: %v", i, err)
						}
					case <-time.After(30 * time.Second):
						f.mu.Lock()
						t.Errorf("long after that waiter %d has nothing; the server was sent %d releases, and "+
							"%d wait there", i, released, len(queue))
						f.mu.Unlock()
					}
				}
				if err := other.Err(); err != nil {
					t.Errorf("another lock of the client, which nobody took away: %v", err)
				}
				must(t, c.Close())
			})
		})
	}
}
