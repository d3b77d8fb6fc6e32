package groups

import (
	"errors"
	"strings"
	"testing"
)

// TestTakeoverOrders: a node stands for election because the leader that it knows asks
// for that, now, and for nobody else; an order that is late or made up changes nothing.
func TestTakeoverOrders(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 3, nil)
	f.settle(3)
	const path = "h:/handed/over"
	c := newClusterClient(f.nodes[0])
	c.mustAcquire(t, path, "o")
	s := f.succession(path)
	from, to, shard, successor := s.from, s.to, s.l.shard, s.successor
	refused := func(what, want, host string, change func(o *orderedTakeover)) {
		t.Helper()
		o := s.order
		change(&o)
		s.refused(t, what, want, host, o)
	}
	refused("from who does not lead", "and not by", f.nodes[(f.leader(path)+2)%3].id.HostID, func(*orderedTakeover) {})
	refused("of an earlier term", "and not by", from.id.HostID, func(o *orderedTakeover) { o.Term-- })
	refused("the leader proposed again", "not elected", from.id.HostID, func(o *orderedTakeover) { o.Index-- })
	refused("the leader proposes again soon", "not elected", from.id.HostID, func(o *orderedTakeover) { o.Within = 0 })
	refused("further than the log", "entries behind", from.id.HostID, func(o *orderedTakeover) { o.Index += 100 })
	refused("another replica", "no voter", from.id.HostID, func(o *orderedTakeover) { o.Replica += 100 })

	l := s.l
	l.pauses(true)
	if err := from.handOver(shard, successor.Replica); !errors.Is(err, errLedOn) ||
		!strings.Contains(err.Error(), "already") {
		t.Errorf("handed over twice at once: %v", err)
	}
	l.pauses(false)

	f.until("the leadership is handed over", func() bool {
		return to.logs[shard].leads() ||
			from.handOver(shard, successor.Replica) == nil
	})
	l.drive.Lock()
	hold := l.drive.hold
	l.drive.Unlock()
	if hold != 0 {
		t.Errorf("the former leader holds until %v", hold)
	}
	f.until("the successor leads", to.logs[shard].leads)
}
