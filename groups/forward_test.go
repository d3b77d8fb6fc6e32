package groups

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// apart is a node that hosts everything and one that forwards to it.
func apart(t *testing.T, change func(i int, c *Config)) *localCluster {
	f := newLocalCluster(t, 2, func(i int, c *Config) {
		c.StabilityWindow, c.ReplicationFactor = time.Hour, 1
		if change != nil {
			change(i, c)
		}
	})
	f.until("the forwarder is ready", func() bool { return f.nodes[1].health().Flag })
	return f
}

// TestForwardLimits has the node that leads a log take no more of another node's requests
// than of its own, and count them out again; so does the node that forwards.
func TestForwardLimits(t *testing.T) {
	t.Parallel()
	const most = 10
	f := apart(t, func(i int, c *Config) {
		if i == 0 {
			c.MaxInflight = most
		}
	})
	r := f.rigOn(1)
	c := r.session()
	c.must(write("o", "h:/x", time.Hour))
	leader := f.nodes[0]
	group := leader.groupOf(leader.routes.Load().Resolve("h:/x"))
	l := leader.logOf(group)
	l.pauses(true)
	var row []*outcome
	for range 3 * most {
		row = append(row, c.start(r.next.Add(1), &wire.Request{Op: wire.OpRelease, Owner: "p",
			Releases: []wire.ReleaseRequest{{Path: "h:/x"}}}))
	}
	eventually(t, "what is too much is refused", func() bool { return r.node.inflight[group].Load() == most })
	if n := leader.inflight[group].Load(); n != most {
		t.Errorf("%d are counted where they are carried out", n)
	}
	l.pauses(false)
	done := 0
	for _, o := range row {
		switch res := <-o.done; {
		case res.Code == wire.OK:
			done++
		case res.Code != wire.Unavailable || !strings.Contains(res.Message, "max_inflight_per_group"):
			t.Errorf("%+v", res)
		}
	}
	if done != most {
		t.Errorf("%d were carried out", done)
	}
	for i := range f.nodes {
		f.rigOn(i).idle()
	}

	var in *inbound
	leader.forwards.mu.Lock()
	for _, x := range leader.forwards.in {
		in = x
	}
	leader.forwards.mu.Unlock()
	in.bytes.Add(maxPeerBytes)
	if res := c.ask(release("p", "h:/x")); res.Code != wire.Unavailable ||
		!strings.Contains(res.Message, "forwarded from the same node") {
		t.Errorf("over maxPeerBytes: %+v", res)
	}
	in.bytes.Add(-maxPeerBytes)
	c.must(release("o", "h:/x"))
	for i := range f.nodes {
		f.rigOn(i).idle()
	}
}

// TestRedirect sends a session that asked for it to the node that leads, and no other.
func TestRedirect(t *testing.T) {
	t.Parallel()
	f := apart(t, nil)
	c := f.rigOn(1).session()
	c.must(write("o", "h:/x", time.Hour))
	c.session.Redirect = true
	for _, req := range []*wire.Request{write("o", "h:/y", time.Hour), {Op: wire.OpInspectPath, Path: "h:/x"}} {
		if res := c.ask(req); res.Code != wire.Redirect || res.Message != "n-0" {
			t.Errorf("%v: %+v", req.Op, res)
		}
	}
	c.must(&wire.Request{Op: wire.OpIncrToken}) // of the system log, which clients know nothing of
	there := f.rigOn(0).session()
	there.session.Redirect = true
	there.must(write("o", "h:/y", time.Hour))
}

// TestLearnersAreNotRead has a node whose replica does not vote read from the leader.
func TestLearnersAreNotRead(t *testing.T) {
	t.Parallel()
	f, _ := three(t)
	at := f.leader("h:/x")
	n := f.nodes[(at+1)%3]
	r := f.rigOn((at + 1) % 3)
	c := r.session()
	c.must(write("o", "h:/x", time.Hour))
	l := n.logOf(n.groupOf(n.routes.Load().Resolve("h:/x")))
	m := l.local.Load()
	f.until("it has applied what its leader has", func() bool {
		return m.AppliedIndex() == f.nodes[at].logs[l.shard].local.Load().AppliedIndex()
	})
	m.Lock() // it is far behind: whoever looks at it waits, though not for ever
	m.Voting.Store(false)
	caughtUp := sync.OnceFunc(func() {
		m.Voting.Store(true)
		m.Unlock()
	})
	defer caughtUp()
	limit := time.AfterFunc(15*time.Second, caughtUp)
	res := c.inspect("h:/x")
	if !limit.Stop() {
		t.Error("who reads waits for a replica that does not vote")
	}
	if !res.Flag && res.Owner != "o" && (res.List == nil || len(res.List.Infos) == 0) {
		t.Errorf("%+v", res)
	}
}

// TestOrphansOfDeadNode ends a wait whose node died, when nobody came to ask for it again.
func TestOrphansOfDeadNode(t *testing.T) {
	t.Parallel()
	const path = "h:/x"
	f, w := three(t)
	at := f.leader(path)
	holder := f.rigOn(at).session()
	holder.must(write("holder", path, time.Hour))
	gone := f.rigOn((at + 1) % 3)
	<-gone.session().start(gone.next.Add(1), waiting(write("gone", path, time.Hour))).queued
	next := f.rigOn((at + 2) % 3)
	o := next.session().start(next.next.Add(1), waiting(write("next", path, time.Hour)))
	if res := <-o.queued; res.Position != 2 {
		t.Fatalf("%+v", res)
	}
	f.kill(w, (at+1)%3)
	f.until("the wait ends", func() bool {
		n := f.nodes[at]
		group := n.groupOf(n.routes.Load().Resolve(path))
		m := n.logOf(group).local.Load()
		m.Lock()
		defer m.Unlock()
		return len(m.Groups[group].State.OpenCalls()) == 1
	})
	holder.must(release("holder", path))
	select {
	case res := <-o.done:
		if res.Code != wire.OK || res.Status != wire.StatusOK {
			t.Errorf("%+v", res)
		}
	case <-time.After(patience):
		t.Error("the next in the queue is not granted")
	}
}

// TestStoppedLeader has a leader read nothing for so long that another one is elected:
// what was sent to it is carried out by that one, and once, though the first reads it
// yet.
func TestStoppedLeader(t *testing.T) {
	t.Parallel()
	f, w := three(t)
	p := newPipes(f, 11, 0)
	shard := uint64(rows.SystemLog)
	at := -1
	f.until("somebody leads", func() bool {
		for i, n := range f.nodes {
			if n.logs[shard].leads() {
				at = i
			}
		}
		return at >= 0
	})
	old := f.nodes[at]
	r := f.rigOn((at + 1) % 3)
	c := r.session()
	first := c.must(&wire.Request{Op: wire.OpIncrToken}).Token
	thaw := p.freeze(old)
	const many = 50
	var row []*outcome
	for range many {
		row = append(row, c.start(r.next.Add(1), &wire.Request{Op: wire.OpIncrToken}))
	}
	w.set(old.id.NodeID, true)
	last := first
	for i, o := range row {
		select {
		case res := <-o.done:
			if res.Code != wire.OK || res.Token != last+1 {
				t.Fatalf("request %d: %+v after %d", i, res, last)
			}
			last = res.Token
		case <-time.After(patience):
			t.Fatalf("request %d is not answered", i)
		}
	}
	w.set(old.id.NodeID, false)
	thaw()
	f.until("the old leader follows", func() bool {
		return old.logs[shard].mine() == 0 &&
			old.logs[shard].lead.Load().leader != 0
	})
	if res := c.must(&wire.Request{Op: wire.OpIncrToken}); res.Token != last+1 {
		t.Errorf("count %d after %d", res.Token, last)
	}
	if res := f.rigOn(at).session().must(&wire.Request{Op: wire.OpIncrToken}); res.Token != last+2 {
		t.Errorf("count %d after %d", res.Token, last)
	}
	for i := range f.nodes {
		f.rigOn(i).idle()
	}
}

// TestLostLeadSleeps: a log whose leadership was lost while it was to try again a little
// later has nothing to wake up for.
func TestLostLeadSleeps(t *testing.T) {
	r := newRig(t, nil)
	l := r.node.logs[rows.FirstLog]
	l.drive.Lock()
	defer l.drive.Unlock()
	was := l.lead.Load()
	l.lead.Store(&leadership{term: was.term + 1, leader: 99})
	defer l.lead.Store(was)
	l.drive.retryAt, l.drive.hold = 1, 1 // long ago
	if d := l.pause(); d < 10*time.Millisecond {
		t.Errorf("it wakes up after %v, again and again", d)
	}
}
