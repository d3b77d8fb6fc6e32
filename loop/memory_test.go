package loop_test

import (
	"fmt"
	"slices"
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

// TestSubscriptionsKeepNoCursors: where a subscription began matters until it is answered; after
// that only what the node has not reached yet, which counts as memory of requests does.
func TestSubscriptionsKeepNoCursors(t *testing.T) {
	const subs, most = 255, 2 << 20 // of 6 MiB for each connection
	s := serve(t, loop.Options{Held: 1 << 20})
	p := join(t, s.unix)
	now := p.must(subscribe("nobody")).List.Positions
	reached, ahead := slices.Clone(now), slices.Clone(now)
	for len(reached)+len(now) <= wire.MaxPositions {
		reached = append(reached, now...)
	}
	for log := uint64(1000); len(ahead) < wire.MaxPositions; log++ {
		ahead = append(ahead, wire.Position{Log: log, Index: 1})
	}
	for name, c := range map[string]struct {
		from []wire.Position
		code wire.Code
	}{"reached": {reached, wire.OK}, "ahead": {ahead, wire.ResourceExhausted}} {
		t.Run(name, func(t *testing.T) {
			before, p := heap(), join(t, s.unix)
			var last wire.Result
			for i := 0; i < subs && last.Code == wire.OK; i++ {
				last = p.ask(subscribe("nobody", c.from...))
			}
			if last.Code != c.code {
				t.Errorf("the last was answered %v, want code %v", last.Err(), c.code)
			}
			p.pushes = nil
			if grown := settledHeap(before, most); grown > most {
				t.Errorf("%d bytes are kept, at most %d are allowed", grown, most)
			}
			p.must(ping())
			p.hangUp()
			eventually(t, "the memory is free again", func() bool {
				p := join(t, s.unix)
				defer p.hangUp()
				for range 4 {
					if res := p.ask(subscribe("nobody", ahead...)); res.Code != wire.OK {
						return false
					}
				}
				return true
			})
		})
	}
}
