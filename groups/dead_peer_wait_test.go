package groups

import (
	"slices"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// TestDeadPeersWait: a client waits for a lock through a node that forwards to the log's leader. The leader has
// proposed the acquire, and is slow: its disk stands for a few seconds. Meanwhile that node dies, and its client with
// it. (Too late: just after the request's time was over at the leader.) Nobody asks for the wait again: it is ended
// reattachGrace later.
func TestDeadPeersWait(t *testing.T) {
	t.Parallel()
	const path = "h:/a/x"
	for name, late := range map[string]bool{"in time": false, "too late": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := &testClock{start: time.Now()}
			f := apart(t, func(i int, c *Config) {
				if c.Clock = clock; i == 0 {
					c.RequestTimeout = 3 * time.Second
				}
			})
			r, holder := f.rigOn(1), f.rigOn(0).session()
			leader := f.nodes[0]
			holder.must(write("holder", path, time.Hour))
			l := leader.logOf(leader.groupOf("h:/a"))
			c := r.session()
			req := waiting(write("gone", path, time.Hour))
			req.QueueTTLMillis = 3_600_000
			clock.hurry(3 * time.Second) // the leader has looked for what it found when its leader epoch began
			l.local.Load().Lock()
			c.start(r.next.Add(1), req)
			proposed := func() (is bool) {
				l.mu.Lock()
				defer l.mu.Unlock()
				for _, fl := range l.mu.batches {
					is = is || slices.ContainsFunc(fl.left(), func(p *part) bool { return p.waits })
				}
				return is
			}
			f.until("the leader has proposed it", proposed)
			if late {
				// its time is over at the leader, which says so once its disk is there
				clock.hurry(4500 * time.Millisecond)
			}
			dead := f.nodes[1]
			f.nodes[1] = nil
			if err := dead.Close(0); err != nil {
				t.Error(err)
			}
			l.local.Load().Unlock()
			clock.hurry(reattachGrace + 8*time.Second)
			f.until("nobody waits", func() bool {
				return len(holder.must(&wire.Request{Op: wire.OpDescribe, Path: path}).List.Waiters) == 0
			})
			holder.must(release("holder", path))
			if owner := holder.inspect(path).Owner; owner != "" {
				t.Errorf("%s is held by %q, whose connection and node are gone, for an hour", path, owner)
			}
		})
	}
}

// TestLatePeersWait: a leader that gives a peer's wait up, as its time is over, keeps in mind that it may have a place:
// its own node asks for it again, or it is ended.
func TestLatePeersWait(t *testing.T) {
	r := newRig(t, nil)
	l := r.node.logOf(r.node.groupOf("h:/a"))
	p := &part{Command: replica.Command{Group: r.node.groupOf("h:/a"), Session: r.session().session, ID: 7}, log: l,
		waits: true, from: &inbound{n: r.node, host: "away"}}
	late := []*part{p}
	if over, ended := l.waitsOver(&late); len(over)+len(ended) > 0 || len(late) != 1 {
		t.Errorf("over %d, ended %d, late %d: it is its own node's to end", len(over), len(ended), len(late))
	}
	left := &r.node.forwards.left
	left.mu.Lock()
	defer left.mu.Unlock()
	if len(left.list) != 1 || left.list[0].caller != p.caller() || left.list[0].host != "away" {
		t.Errorf("kept in mind: %+v", left.list)
	}
}
