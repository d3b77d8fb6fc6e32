package compat

import (
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/pathlockd/pathlockd/compat/pathlockdv1"
	"github.com/pathlockd/pathlockd/wire"
)

func newQueue(limit int, all *atomic.Int64) *eventQueue {
	return &eventQueue{owner: "o", limit: limit, all: all, more: make(chan struct{}, 1)}
}

// TestGapEndsOldSubscribers: who does not know gaps is not left to believe that
// nothing was missed.
func TestGapEndsOldSubscribers(t *testing.T) {
	q := newQueue(8, new(atomic.Int64))
	q.Gap(nil, []wire.Position{{Log: 1, Index: 2}})
	items, _ := q.take()
	if _, err := q.event(&items[0]); status.Code(err) != codes.DataLoss {
		t.Errorf("an old subscriber: %v", err)
	}
	q.gaps = true
	if e, err := q.event(&items[0]); err != nil || e.Type != pb.EventType_EVENT_TYPE_GAP {
		t.Errorf("%v, %v", e, err)
	}
}

// TestBacklogOfAll: when all subscribers together leave too much unread, those that
// have more than their share are cut off.
func TestBacklogOfAll(t *testing.T) {
	all := new(atomic.Int64)
	greedy, modest := newQueue(2*maxBacklog, all), newQueue(2*maxBacklog, all)
	deliver := func(q *eventQueue) { q.Deliver(nil, wire.EventGrant, "p", "n", 1, wire.Position{Log: 1}) }
	for range maxBacklog {
		deliver(greedy)
	}
	for range fairBacklog {
		deliver(modest)
	}
	deliver(greedy)
	if items, cut := modest.take(); len(items) != fairBacklog || cut {
		t.Errorf("the modest one has %d events, cut off: %t", len(items), cut)
	}
	if items, cut := greedy.take(); len(items) != maxBacklog || !cut {
		t.Errorf("the greedy one has %d events, cut off: %t", len(items), cut)
	}
	if n := all.Load(); n != 0 {
		t.Errorf("%d events are counted, and none is left", n)
	}
}

// TestProgressIsOneItem: what is no event does not fill the queue.
func TestProgressIsOneItem(t *testing.T) {
	q := newQueue(2, new(atomic.Int64))
	for i := range 100 {
		q.Progress(nil, []wire.Position{{Log: 1, Index: uint64(i)}})
	}
	items, cut := q.take()
	if len(items) != 1 || cut || items[0].cursor[0].Index != 99 {
		t.Errorf("%d items, cut off: %t, %v", len(items), cut, items)
	}
}
