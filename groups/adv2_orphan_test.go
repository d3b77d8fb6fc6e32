package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv2LateEndOfAnOrphan: the node that leads gives a wait up whose client has not come back,
// and is cut off before that gets into the log. The client comes back to the next leader and is
// told its place. When the former leader is back, its late word must not end that wait.
func TestAdv2LateEndOfAnOrphan(t *testing.T) {
	const path = "h:/cut/x"
	w := new(network)
	f := newFleet(t, 3, func(_ int, c *Config) {
		c.Faults, c.EvictionWindow, c.LogCount, c.RequestTimeout, c.LeaderBalance = w, time.Hour, 1, 3*time.Second, time.Hour
	})
	f.until("every node votes in every log", func() bool {
		for _, n := range f.nodes {
			for _, shard := range []uint64{systemShard, firstLogShard} {
				if m := n.logs[shard].local.Load(); m == nil || !m.voting.Load() {
					return false
				}
			}
		}
		return true
	})
	first := f.leader(path)
	holder := f.rigOn((first + 1) % 3).session()
	holder.must(write("holder", path, time.Hour))
	r := f.rigOn(first)
	client, id := r.session(), r.next.Add(1)
	req := func() *wire.Request {
		req := waiting(write("waits", path, time.Hour))
		req.QueueTTLMillis = 3_600_000
		return req
	}
	<-client.start(id, req()).queued
	caller := (&part{session: client.session, id: id}).caller()

	f.kill(w, first) // the client's node, which leads
	second := f.leader(path)
	n := f.nodes[second]
	left := &n.forwards.left
	due := func(at time.Duration) (noted bool) {
		left.mu.Lock()
		defer left.mu.Unlock()
		for i := range left.list {
			if o := &left.list[i]; o.caller == caller {
				noted, o.due = true, at
			}
		}
		return noted
	}
	f.until("the next leader notes that the wait has nobody to tell", func() bool { return due(time.Hour) })
	w.set(f.cfgs[first].NodeID, false)
	f.start(first)
	f.until("it is back", func() bool {
		host, _ := f.nodes[first].leaderOf(firstLogShard)
		m := f.nodes[first].logs[firstLogShard].local.Load()
		return host == n.id.HostID && m != nil && m.voting.Load() && m.appliedIndex() > 0
	})
	f.until("the leader reaches everybody", func() bool { return len(n.cutOff()) == 0 })
	if !n.logs[firstLogShard].leads() {
		t.Skip("another node leads by now")
	}

	w.set(n.id.NodeID, true)
	if !due(1) {
		t.Skip("another node led meanwhile")
	}
	n.endOrphans() // the client's time to come back is over
	if due(1) {
		t.Fatal("the wait was not given up")
	}
	third := -1
	f.until("another node leads", func() bool {
		for i, o := range f.nodes {
			if i != second && o.logs[firstLogShard].leads() {
				third = i
			}
		}
		return third >= 0
	})
	there := f.rigOn(third)
	there.next.Add(100_000)
	holder = there.session()
	back := there.session()
	back.session = &wire.Session{ID: client.session.ID, Epoch: 2, Window: 256}
	o := back.start(id, req())
	select {
	case res := <-o.queued:
		t.Logf("the client is told its place: %+v", res)
	case res := <-o.done:
		t.Fatalf("the client is answered %+v", res)
	case <-time.After(20 * time.Second):
		t.Fatal("the client is told nothing")
	}
	time.Sleep(2 * n.cfg.RequestTimeout)
	w.set(n.id.NodeID, false)
	f.until("the former leader knows the new one", func() bool {
		host, _ := n.leaderOf(firstLogShard)
		return host != "" && host != n.id.HostID
	})
	time.Sleep(5 * time.Second)
	holder.must(release("holder", path))
	if res := o.get(t, "the wait"); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Errorf("nobody cancelled the wait, and its client, which was told its place, is answered %+v", res)
	}
}
