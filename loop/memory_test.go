package loop_test

import (
	"fmt"
	"testing"

	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// TestBoundOwnersCostTheirNames, and not the reads that their binds came with.
func TestBoundOwnersCostTheirNames(t *testing.T) {
	const (
		owners = 16
		bulk   = 2 << 20
		most   = 8 << 20 // all of the reads together are 32 MiB
	)
	s := serve(t, loop.Options{})
	p := join(t, s.unix)
	ns := named("names")
	before := heap()
	for i := range owners {
		long, longID := padded(p, ping(), bulk)
		bind, ids := p.encode(&wire.Request{Op: wire.OpBind, Owner: fmt.Sprintf("%s-%d", ns, i), GraceMillis: 1000})
		p.send(append(long, bind...))
		for _, id := range append(ids, longID) {
			if res := p.reply(id); res.Code != wire.OK {
				t.Fatal(res.Err())
			}
		}
	}
	if grown := settledHeap(before, most); grown > most {
		t.Errorf("%d bound owners keep %d bytes, at most %d are allowed", owners, grown, most)
	}
	p.must(ping())
}
