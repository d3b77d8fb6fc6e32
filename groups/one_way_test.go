package groups

import (
	"io"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/link"
)

// oneWay is a network in which one node cannot connect to another's link_addr, and all else goes through: what is
// connected stays so, and the other one connects to it as ever.
type oneWay struct {
	mu       sync.Mutex
	from, to string
	both     bool
}

func (w *oneWay) Outgoing(p link.Passage) link.Fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	way := p.From == w.from && p.To == w.to || w.both && p.From == w.to && p.To == w.from
	return link.Fate{Drop: p.Kind == link.Connect && way}
}

func (w *oneWay) set(from, to string, both bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.from, w.to, w.both = from, to, both
}

// TestOneWay: two clients wait for a lock, one through a node that forwards, and behind it one at the leader. The
// connection of the forwarding node to the leader breaks, and it cannot be made anew for twenty seconds, while the
// leader reaches that node as ever. Neither client does anything. Both keep their places: a node that cannot ask is not
// taken for one that does not.
func TestOneWay(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]bool{"one way": true, "both ways": false} {
		t.Run(name, func(t *testing.T) { oneWayWaits(t, one) })
	}
}

func oneWayWaits(t *testing.T, one bool) {
	const path = "h:/x"
	clock, w := &testClock{start: time.Now()}, new(oneWay)
	f := apart(t, func(_ int, c *Config) { c.Clock, c.Faults, c.EvictionWindow = clock, w, time.Hour })
	leader, via := f.nodes[0], f.nodes[1]
	there, r := f.rigOn(0), f.rigOn(1)
	holder, first, behind := there.session(), r.session(), there.session()
	holder.must(write("holder", path, time.Hour))
	ask := func(r *rig, c *caller, owner string) *outcome {
		req := waiting(write(owner, path, time.Hour))
		req.QueueTTLMillis = 3_600_000
		o := c.start(r.next.Add(1), req)
		select {
		case <-o.queued:
		case res := <-o.done:
			t.Fatalf("%s: %+v", owner, res)
		}
		return o
	}
	// the leader has looked for what it found when its leader epoch began, and reaches the other for long
	clock.hurry(15 * time.Second)
	ahead := ask(r, first, "first")
	later := ask(there, behind, "behind")

	attached := func() bool {
		return len(leader.waits.those(func(p *part) bool { return p.from != nil && !p.from.closed.Load() })) > 0
	}
	eventually(t, "the leader has the call", attached)
	w.set(via.id.NodeID, leader.id.NodeID, !one)
	via.cluster.conn(leader.id.HostID).Close(io.ErrUnexpectedEOF)
	if !one {
		leader.cluster.conn(via.id.HostID).Close(io.ErrUnexpectedEOF)
	}
	eventually(t, "the connection is gone", func() bool {
		return !attached() &&
			via.cluster.conn(leader.id.HostID) == nil
	})
	if reached := leader.cluster.conn(via.id.HostID) != nil; reached && !one || !reached && one {
		t.Fatalf("the leader reaches the node: %v", reached)
	}
	clock.hurry(reattachGrace + 10*time.Second)
	for who, o := range map[string]*outcome{"first": ahead, "behind": later} {
		if len(o.done) > 0 {
			t.Fatalf("%s is answered %+v", who, <-o.done)
		}
	}
	w.set("", "", false)
	f.until("the node asks again", attached)
	holder.must(release("holder", path))
	owner := ""
	eventually(t, "the lock goes on", func() bool { owner = holder.inspect(path).Owner; return owner != "" })
	if owner != "first" {
		t.Errorf("the lock goes to %q, which asked for it later", owner)
	}
}
