package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestWaitsReattached: many wait for a lock through a node that does not lead. The leadership is handed over, and the
// node asks the new leader for all of them at once, which are more than it takes of one group (max_inflight_per_group).
// Their places are in the log: nothing but a change of routes may take them from the queue, and who is answered must
// not be granted the lock later.
func TestWaitsReattached(t *testing.T) {
	t.Parallel()
	// max_inflight_per_group is 1024
	for name, n := range map[string][2]int{"few are taken": {4, 16}, "by the default limit": {0, 1200}} {
		t.Run(name, func(t *testing.T) { waitsReattached(t, n[0], n[1]) })
	}
}

func waitsReattached(t *testing.T, most, many int) {
	const path, chunk = "h:/x", 400 // who is told to wait before more ask; a divisor of how many ask
	f := newLocalCluster(t, 3, func(_ int, c *Config) {
		c.Faults, c.EvictionWindow, c.MaxInflight = new(network), time.Hour, most
		c.RequestTimeout = 10 * time.Minute // nor does it carry 1200 waits out within half a minute
	})
	f.settle(3)
	at := f.leader(path)
	via := (at + 1) % 3
	to := (at + 2) % 3
	holder := f.rigOn(at).session()
	holder.must(write("holder", path, time.Hour))
	r := f.rigOn(via)
	c := r.session()
	waits := make([]*outcome, many)
	told := 0
	for i := range many {
		req := waiting(write(fmt.Sprint("w", i), path, time.Hour))
		req.QueueTTLMillis = 3_600_000 // a loaded machine takes more than a minute
		waits[i] = c.start(r.next.Add(1), req)
		if most == 0 && (i+1)%chunk != 0 {
			continue
		}
		for _, o := range waits[told : i+1] {
			select {
			case <-o.queued:
			case res := <-o.done:
				t.Fatalf("a wait is answered %+v", res)
			}
		}
		told = i + 1
	}
	n := f.nodes[at]
	f.handOver(n.logOf(n.groupOf(n.routes.Load().Resolve(path))).shard, to)
	refused := func() (n int, res wire.Result) {
		for _, o := range waits {
			if len(o.done) > 0 {
				n++
				res = <-o.done
				o.done <- res
			}
		}
		return n, res
	}
	f.until("the next leader has all of them, or somebody is answered", func() bool {
		told := f.nodes[f.leader(path)].waits.those(func(p *part) bool { return p.told.Load() })
		n, _ := refused()
		return len(told) == many || n > 0
	})
	if n, res := refused(); n > 0 {
		t.Fatalf("%d of %d that had their places in the queue are answered as a leader hands over: %+v", n, many, res)
	}
	// The lock goes through the queue: who has it gives it back.
	look := f.rigOn(to).session()
	release := func(owner string) { // the copies of what was asked again may be under way yet
		f.until("the lock is given back", func() bool {
			res := look.ask(release(owner, path))
			if res.Code != wire.OK && res.Code != wire.Unavailable {
				t.Fatalf("%+v", res)
			}
			return res.Code == wire.OK
		})
	}
	release("holder")
	for i := range many {
		owner := fmt.Sprint("w", i)
		if res := waits[i].get(t, owner); res.Code != wire.OK || res.Status != wire.StatusOK {
			t.Fatalf("%s is answered %+v", owner, res)
		}
		release(owner)
	}
}
