package groups

import (
	"sync/atomic"
	"testing"

	"github.com/lni/dragonboat/v4/raftio"
	"github.com/lni/dragonboat/v4/raftpb"

	"github.com/pathlockd/pathlockd/groups/rows"
)

// TestTakeoverEndsWithTheNode: a node that stops while it takes a log over does not stand for election over and over until
// the time for that is up: each time is a term more for all who vote.
func TestTakeoverEndsWithTheNode(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	n, l := r.node, r.node.logs[rows.FirstLog]
	m := l.local.Load()
	eventually(t, "it leads", l.leads)
	var stood atomic.Int32
	counts := raftio.MessageHandler(func(raftpb.MessageBatch) { stood.Add(1) })
	n.wire.own.Store(&counts)
	l.lead.Store(&leadership{leader: m.Replica + 1, term: 99}) // who asks for it
	over := make(chan error, 1)
	go func() {
		over <- n.takeOver("", orderedTakeover{Log: l.shard, Replica: m.Replica, Index: m.AppliedIndex(), Term: 99, Within: holdFor})
	}()
	eventually(t, "it stands", func() bool { return stood.Load() > 0 })
	r.close()
	if err := <-over; err == nil {
		t.Error("it has taken the log over")
	}
	if most := int32(holdFor/standEvery) + 1; stood.Load() > most {
		t.Errorf("it stood for election %d times, where there is time for %d", stood.Load(), most)
	}
}
