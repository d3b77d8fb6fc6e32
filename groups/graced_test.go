package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestGracedGoes: clients whose connections end while the log has no leader, before their waits that they had asked
// again are answered. They do not come back. Nothing of them stays in the node when the grace of their waits is over.
func TestGracedGoes(t *testing.T) {
	t.Parallel()
	const clients = 20
	r := newRig(t, func(c *Config) { c.RequestTimeout = time.Second })
	holder := r.session()
	holder.must(write("holder", "h:/a/x", time.Hour))
	l := r.node.logOf(r.node.groupOf("h:/a"))
	l.pauses(true)
	var open []*outcome
	for range clients {
		c := r.session()
		id := r.next.Add(1)
		c.session.Epoch, c.session.First = 2, r.next.Add(1)
		open = append(open, c.start(id, waiting(write("w", "h:/a/x", time.Hour))))
		r.node.Closed(c.session, false, false)
	}
	for _, o := range open {
		o.get(t, "a wait, which nobody hears")
	}
	l.pauses(false)
	r.clock.hurry(reattachGrace + 3*time.Second)
	holder.must(write("holder", "h:/a/y", time.Hour))
	r.node.waits.mu.Lock()
	defer r.node.waits.mu.Unlock()
	if n := len(r.node.waits.graced); n > 0 {
		t.Errorf("%d of %d sessions that ended are in openWaits.graced for good", n, clients)
	}
}

// TestBoundKeepsItsGrace: a wait whose lease is to be tied keeps its place for the grace when its connection closes
// (PROTOCOL.md, section 3), so also one that was asked again and answered UNAVAILABLE just before.
func TestBoundKeepsItsGrace(t *testing.T) {
	t.Parallel()
	const path = "h:/a/x"
	for name, refused := range map[string]bool{"its place was told": false, "answered UNAVAILABLE": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.RequestTimeout = 2 * time.Second })
			holder, c, later := r.session(), r.session(), r.session()
			l := r.node.logOf(r.node.groupOf("h:/a"))
			holder.must(write("holder", path, time.Hour))
			id := r.next.Add(1)
			ask := func() *wire.Request {
				req := waiting(write("first", path, time.Hour))
				req.Flags |= wire.FlagBind
				return req
			}
			grace := func(call *wire.Call) { call.Grace = 60_000 }
			<-c.startAs(id, ask(), grace).queued
			behind := later.start(r.next.Add(1), waiting(write("second", path, time.Hour)))
			<-behind.queued
			before := c.session
			c.session = &wire.Session{ID: before.ID, Epoch: 2, Window: before.Window, First: r.next.Add(1)}
			r.node.Closed(before, true, true)
			later.must(release("nobody", "h:/a/n")) // behind what that brings about
			if !refused {
				<-c.startAs(id, ask(), grace).queued
			} else {
				l.pauses(true)
				if res := c.startAs(id, ask(), grace).get(t, "the wait, asked again"); res.Code != wire.Unavailable {
					t.Fatalf("it is answered %+v", res)
				}
				l.pauses(false)
			}
			before = c.session
			r.node.Closed(before, true, false)      // it breaks
			later.must(release("nobody", "h:/a/n")) // behind that
			c.session = &wire.Session{ID: before.ID, Epoch: 3, Window: before.Window, First: r.next.Add(1)}
			o := c.startAs(id, ask(), grace) // it is back within its grace
			<-o.queued
			holder.must(release("holder", path))
			if owner := holder.inspect(path).Owner; owner != "first" {
				t.Errorf("it came back half a second later, with a grace of 60 s, and %q, which came behind it, "+
					"was granted %s", owner, path)
			}
		})
	}
}
