package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestLeaseBesideEnds: what is asked for while waits end whose process is over lasts as long as any other: no time that
// passed before it was asked for counts.
func TestLeaseBesideEnds(t *testing.T) {
	const lasts, late = 1500 * time.Millisecond, time.Second
	for name, granted := range map[string]bool{"asked": false, "granted": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.LogCount = 1 })
			holder, calling, c := r.session(), r.served(), r.session()
			held := write("holder", "h:/a/x", time.Hour)
			held.Locks[0].Mode = wire.ModeRead
			holder.must(held)
			r.row(calling, "call", "h:/a/x")
			req := write("me", "h:/a/y", lasts)
			var o *outcome
			if granted {
				req = waiting(write("me", "h:/a/x", lasts))
				req.Locks[0].Mode = wire.ModeRead
				o = c.start(r.next.Add(1), req)
				<-o.queued
			}
			l := r.node.logs[rows.FirstLog]
			r.clock.freeze()
			l.pauses(true)
			r.clock.advance(late)
			r.node.processOver(r.node.id.HostID, r.node.id.Starts)
			if !granted {
				o = c.start(r.next.Add(1), req)
				eventually(t, "it is queued", func() bool {
					l.mu.Lock()
					defer l.mu.Unlock()
					return len(l.mu.queue) == 2
				})
			}
			l.pauses(false)
			if res := o.get(t, "the lock"); res.Code != wire.OK || res.Status != wire.StatusOK {
				t.Fatalf("%+v", res)
			}
			r.clock.advance(lasts - 100*time.Millisecond)
			holder.must(write("other", "h:/a/z", time.Hour)) // an entry with the new stamp
			if !c.alive("me") {
				t.Errorf("a lease of %v is over %v after it was told", lasts, lasts-100*time.Millisecond)
			}
			r.clock.run()
		})
	}
}
