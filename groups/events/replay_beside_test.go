package events

import (
	"sync"
	"testing"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// orderSink notes what it is told of each log, in its order.
type orderSink struct {
	mu   sync.Mutex
	told map[uint64][]uint64
	gaps int
}

func (s *orderSink) Deliver(_ *wire.Subscription, _ wire.EventKind, _, _ string, _ int64, at wire.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told[at.Log] = append(s.told[at.Log], at.Index)
}

func (s *orderSink) Progress(*wire.Subscription, []wire.Position) {}

func (s *orderSink) Gap(*wire.Subscription, []wire.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gaps++
}

// TestReplayBesideEvents: what happens in any log while a subscription looks through what there was, log by log, is
// told once, and behind that.
func TestReplayBesideEvents(t *testing.T) {
	const keep, logs, before, after = 4000, 8, 500, 300
	for range 20 {
		h := New(keep)
		publish := func(log, index uint64) {
			h.Publish(log, index, []engine.Event{{Owner: "o", Kind: wire.EventExpired, Namespace: "h:/a"}}, true)
		}
		for log := range uint64(logs) {
			for i := range uint64(before) {
				publish(log+2, i+1)
			}
		}
		sink := &orderSink{told: make(map[uint64][]uint64)}
		sub := &wire.Subscription{Owner: "o", Number: 1, Sink: sink, From: []wire.Position{h.Mark},
			Kinds: wire.AllEvents}
		var all sync.WaitGroup
		for log := range uint64(logs) {
			all.Go(func() {
				for i := range uint64(after) {
					publish(log+2, before+i+1)
				}
			})
		}
		h.Subscribe(sub)
		all.Wait()
		for log := range uint64(logs) {
			told := sink.told[log+2]
			for i, index := range told {
				if index != uint64(i+1) {
					t.Fatalf("log %d: event %d is told as the %dth", log+2, index, i+1)
				}
			}
			if len(told) != before+after || sink.gaps > 0 {
				t.Fatalf("log %d: %d events are told of %d, and %d gaps", log+2, len(told), before+after, sink.gaps)
			}
		}
	}
}
