package loop_test

import (
	"runtime"
	"testing"

	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv2SubscriptionsKeepCursors: where a subscription began matters until it is answered. It is
// kept for as long as the subscription lives, 24 KiB each, which nobody counts.
func TestAdv2SubscriptionsKeepCursors(t *testing.T) {
	const peers, subs, most = 16, 256, 24 << 20 // of 96 MiB
	s := serve(t, loop.Options{})
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var all []*peer
	for range peers {
		all = append(all, join(t, s.unix))
	}
	now := all[0].must(subscribe("nobody")).List.Positions
	var from []wire.Position
	for len(from)+len(now) <= wire.MaxPositions {
		from = append(from, now...)
	}
	before := heap()
	for _, p := range all {
		for range subs - 1 {
			p.must(subscribe("nobody", from...))
		}
		p.pushes = nil
	}
	if grown := heap() - before; grown > most {
		t.Errorf("%d subscriptions that are answered keep %d bytes: %d for each connection", peers*subs, grown, grown/peers)
	}
	for _, p := range all {
		p.must(ping())
	}
}
