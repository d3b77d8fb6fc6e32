package groups

import (
	"bytes"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// overlooked is a node that led a log, and is not told that another one does before it leads again.
type overlooked struct {
	*rig
	l    *shardLog
	was  *leadership
	own  replica.LeaderEpoch // of the other node
	last uint64              // batch of that
}

func newOverlooked(t *testing.T) *overlooked {
	r := newRig(t, func(c *Config) { c.LogCount = 1 })
	o := &overlooked{rig: r, l: r.node.logOf(r.node.groupOf("h:/a"))}
	o.was = o.l.lead.Load()
	o.own = replica.LeaderEpoch{Term: o.was.term + 1, Node: o.was.leader + 1, Incarnation: 99}
	return o
}

// led has the other node begin its leader epoch.
func (o *overlooked) led() {
	n := o.node
	proposed(o.t, o.l, replica.AppendLeaderEpoch(nil, n.formats.Written(), o.own, n.cfg.limits()))
}

// ask has a request carried out that the other node was asked, about h:/a.
func (o *overlooked) ask(s *wire.Session, id uint64, req *wire.Request) {
	n := o.node
	p := &part{Command: replica.Command{Op: req.Op, Group: n.groupOf("h:/a"), NSLen: len("h:/a"), Session: s, ID: id}}
	p.Body, p.NArgs = wire.AppendArgs(nil, req)
	var w replica.BatchWriter
	w.Reset()
	w.Add(&p.Command, p.attempts())
	o.last++
	stamp := o.l.local.Load().Stamp(o.own, o.l.clock.Mono())
	head := replica.BatchHead{Format: n.formats.Written(), LeaderEpoch: o.own, Number: o.last, Next: true, Stamp: stamp}
	proposed(o.t, o.l, bytes.Clone(w.Entry(&head)))
}

// again has the node lead in a later term.
func (o *overlooked) again() {
	o.l.leaderChanged(o.was.term+2, o.was.leader)
	eventually(o.t, "it leads again", o.l.leads)
}

// TestOrphanOfAnOverlookedLeaderEpoch: a client waits at the node that leads. Another node leads for a while, which the
// first one is not told before it leads again, so that it has the call open still. Meanwhile the client went on at the
// other node, asked again there, and is gone. Nobody asks for the wait any more, and the call that was left behind does
// not count as somebody: the wait ends, and that call with it. Else the lock would be granted to nobody, for the whole
// TTL. (So it was in the simulation, seed 103872.)
func TestOrphanOfAnOverlookedLeaderEpoch(t *testing.T) {
	t.Parallel()
	const path = "h:/a/x"
	r := newOverlooked(t)
	n := r.node
	holder, c := r.session(), r.session()
	holder.must(write("holder", path, time.Hour))
	req := waiting(write("waits", path, time.Hour))
	req.QueueTTLMillis = 3_600_000
	id := r.next.Add(1)
	behind := c.start(id, req)
	<-behind.queued
	caller := (&part{Command: replica.Command{Session: c.session, ID: id}}).caller()
	r.led()
	r.ask(later(c.session), id, req)
	r.again()
	n.Closed(c.session, false, false) // it finds out that the first connection has ended

	left := &n.forwards.left
	eventually(t, "it notes that the wait has nobody to tell", func() bool {
		left.mu.Lock()
		defer left.mu.Unlock()
		noted := false
		for i := range left.list {
			if o := &left.list[i]; o.caller == caller && o.epoch == c.session.Epoch+1 {
				noted, o.due = true, 0 // its grace is over
			}
		}
		return noted
	})
	n.endOrphans()
	r.session().must(release("nobody", path)) // behind the end
	holder.must(release("holder", path))
	if owner := holder.inspect(path).Owner; owner != "" {
		t.Errorf("%s is held by %q, whose client is gone", path, owner)
	}
	if n.waits.get(caller) != nil {
		t.Error("its call stays open")
	}
	if len(behind.done) == 0 {
		t.Error("the call on the first connection is never answered")
	}
}

// TestGrantInASnapshotOfAnOverlookedLeaderEpoch: a client waits at the node that leads. While another one does it is
// granted the lock, in an entry that the first node does not get, but a snapshot in its place; and it leads again
// before it is told of the other one. It asks for the wait anew all the same, and so its client, who waits still, hears
// of the grant.
func TestGrantInASnapshotOfAnOverlookedLeaderEpoch(t *testing.T) {
	t.Parallel()
	const path = "h:/a/x"
	r := newOverlooked(t)
	n := r.node
	holder, c := r.session(), r.session()
	holder.must(write("holder", path, time.Hour))
	id := r.next.Add(1)
	o := c.start(id, waiting(write("waits", path, time.Hour)))
	<-o.queued
	p := n.waits.get((&part{Command: replica.Command{Session: c.session, ID: id}}).caller())
	hears := func(does bool) {
		n.waits.mu.Lock()
		defer n.waits.mu.Unlock()
		p.open = does
	}
	hears(false) // what follows is in the snapshot
	r.led()
	r.ask(r.session().session, 1, release("holder", path))
	hears(true)
	r.l.Overtaken(r.own, r.last)
	r.again()
	if owner := holder.inspect(path).Owner; owner != "waits" {
		t.Fatalf("%s is held by %q", path, owner)
	}
	select {
	case res := <-o.done:
		if res.Code != wire.OK || res.Status != wire.StatusOK {
			t.Errorf("it is answered %+v", res)
		}
	case <-time.After(10 * time.Second):
		t.Error("it has the lock, and is never told")
	}
}
