package loop_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/pathlockd/pathlockd/loop"
	"github.com/pathlockd/pathlockd/wire"
)

// TestRepeatOnTheSameConnection: a request that is asked again on the connection that it was
// first asked on is answered as before as long as its answer is kept, and refused after that;
// it is not carried out twice, as a whole or in several groups.
func TestRepeatOnTheSameConnection(t *testing.T) {
	both(t, loop.Options{}, func(t *testing.T, addr net.Addr) {
		for _, settles := range []bool{false, true} {
			t.Run(fmt.Sprintf("settles %v", settles), func(t *testing.T) {
				testRepeatOnTheSameConnection(t, addr, settles)
			})
		}
	})
}

func testRepeatOnTheSameConnection(t *testing.T, addr net.Addr, settles bool) {
	p := join(t, addr)
	ns := named("same")
	one, two := ns+"a:/n/x", ns+"b:/n/x"
	apart := release(ns, one)
	apart.Releases = append(apart.Releases, wire.ReleaseRequest{Path: two})

	p.must(&wire.Request{Op: wire.OpIncrToken}) // before them: what is settled is below them
	incr := p.last + 1
	first := p.must(&wire.Request{Op: wire.OpIncrToken})
	p.must(apart)
	again := func(id uint64, req *wire.Request) wire.Result {
		t.Helper()
		p.ops[id] = req.Op
		p.send(wire.AppendRequest(nil, id, req))
		return p.reply(id)
	}
	if res := again(incr, &wire.Request{Op: wire.OpIncrToken}); res.Code != wire.OK || res.Token != first.Token {
		t.Errorf("at once it is answered %v, token %d, want %d", res.Err(), res.Token, first.Token)
	}

	newer := 300 // more than the window
	if settles {
		newer = 1100 // more than answers are kept
	}
	for newer > 0 {
		var reqs []*wire.Request
		for range min(newer, 80) {
			for _, req := range []*wire.Request{{Op: wire.OpIncrToken}, write(ns, one), write(ns, two)} {
				if settles {
					req.Settled = incr
				}
				reqs = append(reqs, req)
			}
		}
		newer -= len(reqs) / 3
		for _, id := range p.start(reqs...) {
			if res := p.reply(id); res.Code != wire.OK || res.Status != wire.StatusOK {
				t.Fatalf("%v, %v", res.Err(), res.Status)
			}
		}
	}
	if res := again(incr, &wire.Request{Op: wire.OpIncrToken}); res.Code != wire.Forgotten {
		t.Errorf("it answered %d, and then %v, token %d", first.Token, res.Err(), res.Token)
	}
	if res := again(incr+1, apart); res.Code != wire.Forgotten {
		t.Errorf("the release is answered %v", res.Err())
	}
	for _, path := range []string{one, two} {
		if owner, _ := holder(p, path); owner != ns {
			t.Errorf("%s is held by %q, as an earlier release was carried out again", path, owner)
		}
	}
}
