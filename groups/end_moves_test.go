package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// TestHeldBackWhileTheNodeEnds: a node that is closed answers what a connection has held back because of a move. Until
// its logs are closed a further request of the connection may meet the move; that is held back, too, and answered when
// nothing is applied any more, as every request is (PROTOCOL.md, requests and replies).
func TestHeldBackWhileTheNodeEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c := r.session()
	ln := lineOf(c.session)
	for _, when := range []string{"when its loops end", "when nothing is applied any more"} {
		req := write("o", "h:/a/x", time.Hour)
		call := &wire.Call{ID: r.next.Add(1), Op: req.Op, Req: req, Session: c.session, To: c}
		o := &outcome{queued: make(chan wire.Result, 1), done: make(chan wire.Result, 1)}
		c.mu.Lock()
		c.open[call] = o
		c.mu.Unlock()
		ln.mu.Lock()
		p := partOf(call)
		*p = part{
			Command: replica.Command{Op: req.Op, Session: c.session, ID: call.ID},
			call:    call,
			since:   r.node.clock.Mono(),
			line:    ln,
			ns:      "h:/a",
			routes:  r.node.routes.Load(),
			need:    r.node.routes.Load().Version + 1,
		}
		ln.held = append(ln.held, p)
		r.node.moves.hold(ln)
		ln.mu.Unlock()
		r.node.endMoves()
		select {
		case res := <-o.done:
			if res.Code != wire.Unavailable {
				t.Errorf("%s: it is answered %+v", when, res)
			}
		default:
			t.Errorf("%s: what is held back is not answered", when)
		}
	}
}
