package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRefusedRepeatOfAForwardedWait: a client waits for a lock through a node that forwards, and has its place. Its
// connection breaks, and it comes back to the same node and asks for the wait again, before that node has noticed that
// the first connection is gone (or, on the same connection, asks twice). The leader refuses the repeat, as too many
// requests of the group are under way there (code 14: it says nothing of the first time). The client does not ask
// again, the node notices that the first connection is gone (or the client cancels the wait). "A waiting acquire leaves
// the queue when its connection closes: at once, or after the grace" (PROTOCOL.md, section 3): the lock is not to be
// granted to nobody.
func TestRefusedRepeatOfAForwardedWait(t *testing.T) {
	t.Parallel()
	// A server closes the first connection when the next one says hello, and tells the handler when nothing but waits
	// is left of it: what else is under way in the busy group holds that up (loop: session.leave), and the repeat
	// overtakes it.
	for _, how := range []string{
		"next connection, stands", "same connection, ends", "next connection, cancels", "same connection, cancels",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			refusedRepeat(t, how)
		})
	}
}

func refusedRepeat(t *testing.T, how string) {
	const path, most = "h:/x", 3
	f := apart(t, func(i int, c *Config) {
		if i == 0 {
			c.MaxInflight = most
		}
	})
	leader, via := f.nodes[0], f.nodes[1]
	there, r := f.rigOn(0), f.rigOn(1)
	holder, c := there.session(), r.session()
	holder.must(write("holder", path, time.Hour))
	ask := func() *wire.Request {
		req := waiting(write("gone", path, time.Hour))
		req.QueueTTLMillis = 3_600_000
		return req
	}
	id := r.next.Add(1)
	first := c.start(id, ask())
	<-first.queued

	// The leader is busy.
	group := leader.groupOf(leader.routes.Load().Resolve(path))
	l := leader.logOf(group)
	l.pauses(true)
	filler := there.session()
	var open []*outcome
	for i := range most {
		open = append(open, filler.start(there.next.Add(1), release("filler", fmt.Sprint(path, "/filler", i))))
	}
	before := c.session
	same := how[0] == 's'
	var again *outcome
	if same {
		again = askAgain(c, id, ask())
	} else {
		c.session = &wire.Session{ID: before.ID, Epoch: before.Epoch + 1, Window: before.Window, First: r.next.Add(1)}
		again = c.start(id, ask())
	}
	res := again.get(t, "the repeat")
	if res.Code != wire.Unavailable {
		t.Fatalf("the repeat is answered %+v", res)
	}
	l.pauses(false)
	for _, o := range open {
		o.get(t, "a filler")
	}

	// The client gives up.
	switch how {
	case "next connection, stands": // and asks for the wait no more
		via.Closed(before, false, true)
	case "same connection, ends":
		via.Closed(c.session, false, false)
	default:
		via.Cancel(c.session, id)
		if !same {
			via.Closed(before, false, true)
		}
	}
	time.Sleep(2 * time.Second)
	if !same { // more than the grace that a wait of a session has which went on
		time.Sleep(reattachGrace + time.Second)
	}
	if w := holder.must(&wire.Request{Op: wire.OpDescribe, Path: path}).List.Waiters; len(w) > 0 {
		t.Errorf("%q waits, whose connections are gone or which cancelled it", w[0].Owner)
	}
	holder.must(release("holder", path))
	if owner := holder.inspect(path).Owner; owner != "" {
		t.Errorf("%s is held by %q, which has given it up, for an hour", path, owner)
	}
}
