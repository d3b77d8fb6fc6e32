package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestLeaderDoesNotKnow: a wait goes through a node that forwards, and the leader answers that nobody knows what became
// of it. Its client, which may go on that, is not to be granted the lock: a wait that was told its place ends; one that
// was not has a grace, which is over when its connection ends.
func TestLeaderDoesNotKnow(t *testing.T) {
	t.Parallel()
	const path = "h:/a/x"
	for name, told := range map[string]bool{"its place was told": true, "it was not": false} {
		t.Run(name, func(t *testing.T) {
			f := apart(t, nil)
			r, holder := f.rigOn(1), f.rigOn(0).session()
			leader := f.nodes[0]
			l := leader.logOf(leader.groupOf("h:/a"))
			holder.must(write("holder", path, time.Hour))
			req := waiting(write("w", path, time.Hour))
			req.QueueTTLMillis = 3_600_000
			c := r.session()
			l.pauses(!told)
			o := c.start(r.next.Add(1), req)
			var p *part
			f.until("the leader has it", func() bool {
				if told {
					for _, p = range leader.waits.those(func(p *part) bool { return p.from != nil && p.told.Load() }) {
					}
					return p != nil
				}
				l.mu.Lock()
				defer l.mu.Unlock()
				for _, q := range l.mu.queue {
					if q.waits {
						p = q
					}
				}
				return p != nil
			})
			p.from.reply(p, &outcomeUnknown)
			p.from.Flush()
			if res := o.get(t, "the wait"); res.Code != wire.DeadlineExceeded {
				t.Fatalf("it is answered %+v", res)
			}
			l.pauses(false)
			nobody := func() bool {
				return len(holder.must(&wire.Request{Op: wire.OpDescribe,
					Path: path}).List.Waiters) == 0
			}
			if !told {
				r.session().must(release("nobody", "h:/a/n")) // behind it
				if nobody() {
					t.Fatal("it has no grace to be asked again")
				}
				r.node.Closed(c.session, false, false)
			}
			if !within(reattachGrace/2, 10*time.Millisecond, nobody) {
				t.Error("it waits on, and will be granted to nobody")
			}
		})
	}
}
