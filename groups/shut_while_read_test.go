package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// TestShutWhileRead: a frame is being read as its connection is shut, as its process is over, or asks the same on a
// later one. What is queued of it after that is not carried out: nobody would have what it takes.
func TestShutWhileRead(t *testing.T) {
	for name, waits := range map[string]bool{"plain": false, "waiting": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			n := r.node
			const path = "h:/a/x"
			caller := r.session()
			caller.must(write("other", "h:/a/y", time.Hour)) // it leads
			in := n.inboundOf(new(wireEnd), "peer")
			if !in.latest([2]uint64{5, 1}) {
				t.Fatal("it is no later one")
			}
			req := write("dead", path, time.Hour)
			if waits {
				req = waiting(req)
			}
			ns := n.routes.Load().Resolve(path)
			g := n.groupOf(ns)
			l := n.logOf(g)
			n.processOver("peer", 5)
			eventually(t, "the queue was looked through", func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				return !l.mu.suspect
			})
			p := &part{
				Command: replica.Command{Group: g, Op: req.Op, NSLen: len(ns), Version: n.routes.Load().Version,
					Session: &wire.Session{ID: newSessionOf("peer", 5), Epoch: 1, Window: 4}, ID: 1},
				from:  in,
				log:   l,
				term:  l.mine(),
				waits: waits,
				since: n.clock.Mono(),
			}
			p.Body, p.NArgs = wire.AppendArgs(nil, req)
			if waits {
				n.attach(p, new(repliers))
			}
			l.push(p)
			l.start()
			caller.must(write("other", "h:/a/y", time.Hour)) // it comes behind
			if owner := caller.inspect(path).Owner; owner != "" {
				t.Errorf("%q has it", owner)
			}
			if waits && n.waits.get(p.caller()) != nil {
				t.Error("it waits still")
			}
		})
	}
}
