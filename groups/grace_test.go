package groups

import (
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestWaitsOutliveTheGrace: callers of all nodes wait for a path while its leadership is
// handed over. The new leader does not know who of them still waits; they tell it, and
// are in the queue when those that nobody asks for are ended.
func TestWaitsOutliveTheGrace(t *testing.T) {
	t.Parallel()
	const path = "h:/grace/x"
	f := calm(t, nil)
	at := f.leader(path)
	from, to := f.nodes[at], f.nodes[(at+1)%3]
	shard := from.logOf(from.groupOf(from.routes.Load().Resolve(path))).shard
	rigs := []*rig{f.rigOn(0), f.rigOn(1), f.rigOn(2)}
	holder := rigs[at].session()
	holder.must(write("holder", path, time.Hour))
	type waiter struct {
		c     *caller
		owner string
		o     *outcome
	}
	var row []waiter
	for i, owner := range []string{"w0", "w1", "w2"} {
		r := rigs[i]
		w := waiter{c: r.session(), owner: owner}
		w.o = w.c.start(r.next.Add(1), waiting(write(owner, path, time.Hour)))
		if res := <-w.o.queued; res.Position != uint64(i)+1 {
			t.Fatalf("%s stands at %d", owner, res.Position)
		}
		row = append(row, w)
	}
	left := func() (waits int) { // the leadership may go back meanwhile
		for _, n := range f.nodes {
			n.forwards.left.mu.Lock()
			waits += len(n.forwards.left.list)
			n.forwards.left.mu.Unlock()
		}
		return waits
	}
	f.until("nobody looks for waits", func() bool { return left() == 0 })
	f.until("the leadership is handed over", func() bool {
		return to.logs[shard].leads() || from.handOver(shard, to.logs[shard].local.Load().Replica) == nil
	})
	f.until("the new leader looks for waits", func() bool { return left() > 0 })
	f.until("the grace is over", func() bool { return left() == 0 })
	holder.must(release("holder", path))
	for _, w := range row {
		select {
		case res := <-w.o.done:
			if res.Code != wire.OK || res.Status != wire.StatusOK {
				t.Fatalf("%s: %+v", w.owner, res)
			}
		case <-time.After(patience):
			t.Fatalf("%s is not granted", w.owner)
		}
		w.c.must(release(w.owner, path))
	}
}

// TestExtendingShortensNothing: a renewal that only extends does so in every group that its
// owner has a lease in.
func TestExtendingShortensNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c := r.session()
	for _, path := range []string{"h:/a/x", "h:/b/x", "h:/c/x", "h:/d/x"} {
		c.must(write("o", path, time.Hour))
	}
	for _, domains := range [][]string{nil, {"h:/a", "h:/b", "h:/c", "h:/d"}, {"h"}} {
		c.must(&wire.Request{Op: wire.OpRenew, Owner: "o", TTLMillis: 1000, Flags: wire.FlagExtend, Domains: domains})
	}
	for _, l := range c.must(&wire.Request{Op: wire.OpListLocks, Owner: "o"}).List.Infos {
		if l.ExpiresInMillis < uint64(time.Hour.Milliseconds())/2 {
			t.Errorf("%s ends in %d ms", l.Path, l.ExpiresInMillis)
		}
	}
}

// TestPartlyDone: what was carried out in one log and refused in another is not answered as
// if nothing had been done.
func TestPartlyDone(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.RequestTimeout = 2 * time.Second })
	c, n := r.session(), r.node
	paths := []string{"h:/a/x", "h:/b/x", "h:/c/x", "h:/d/x", "h:/e/x", "h:/f/x"}
	logs := make(map[*shardLog]string)
	for _, path := range paths {
		c.must(write("o", path, time.Hour))
		logs[n.logOf(n.groupOf(n.routes.Load().Resolve(path)))] = path
	}
	if len(logs) < 2 {
		t.Fatalf("all of %v are in one log", paths)
	}
	held := n.logOf(n.groupOf(n.routes.Load().Resolve(paths[0])))
	held.pauses(true) // for longer than a request may take
	res := c.ask(&wire.Request{Op: wire.OpReleaseAll, Owner: "o"})
	if res.Code != wire.DeadlineExceeded || strings.Contains(res.Message, "nothing was done") ||
		!strings.Contains(res.Message, "carried out in") {
		t.Errorf("answered %+v", res)
	}
}
