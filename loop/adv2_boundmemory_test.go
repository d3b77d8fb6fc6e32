package loop_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv2BoundOwnersPinReads: an owner that is bound to a connection costs its name. It keeps
// all of the read in memory that its bind came with, which nobody counts.
func TestAdv2BoundOwnersPinReads(t *testing.T) {
	const (
		owners = 48
		bulk   = 2 << 20
		most   = 24 << 20 // all of them together pin 96 MiB
	)
	s := serve(t, loop.Options{})
	p := join(t, s.unix)
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	ns := named("pins")
	before := heap()
	for i := range owners {
		long, longID := padded(p, ping(), bulk)
		bind, bindIDs := p.encode(&wire.Request{Op: wire.OpBind, Owner: fmt.Sprintf("%s-%d", ns, i), GraceMillis: 1000})
		p.send(append(long, bind...))
		for _, id := range append(bindIDs, longID) {
			if res := p.reply(id); res.Code != wire.OK {
				t.Fatal(res.Err())
			}
		}
	}
	grown := heap() - before
	t.Logf("%d bound owners keep %d KiB", owners, grown>>10)
	if grown > most {
		t.Errorf("%d bound owners of %d bytes each keep %d bytes: %d for each", owners, len(ns)+3, grown, grown/owners)
	}
	p.must(ping())
}
