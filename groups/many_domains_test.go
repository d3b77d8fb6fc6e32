package groups

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// TestRenewManyHandlers: a renewal names a thousand handlers, at a node that hosts no log, and its owner is in each
// group. Each group is asked once, and not for every handler; who reads there meanwhile is not refused.
func TestRenewManyHandlers(t *testing.T) {
	t.Parallel()
	f := apart(t, nil)
	near, far := f.rigOn(0).session(), f.rigOn(1).session()
	const handlers = 1000
	req := &wire.Request{Op: wire.OpRenew, Owner: "o", TTLMillis: 3_600_000}
	var under []*outcome
	for i := range handlers {
		under = append(under, near.start(near.r.next.Add(1), write("o", fmt.Sprintf("h%d:/a/x", i), time.Hour)))
		req.Domains = append(req.Domains, fmt.Sprintf("h%d", i))
		if len(under) == 100 {
			for _, o := range under {
				if res := o.get(t, "an acquire"); res.Code != wire.OK {
					t.Fatalf("%v %q", res.Code, res.Message)
				}
			}
			under = nil
		}
	}
	n := f.nodes[1]
	reads := &n.forwards.reads
	asked := func() uint64 {
		reads.mu.Lock()
		defer reads.mu.Unlock()
		return reads.last
	}
	before := asked()
	if res := far.ask(req); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Errorf("%v %v %q", res.Code, res.Status, res.Message)
	}
	// The routes, where the owner is, and where it is alive; some more if something is to be asked again.
	if most := 2 * uint64(1+len(n.logs)+n.cfg.GroupCount); asked()-before > most {
		t.Errorf("%d questions, at most %d", asked()-before, most)
	}
	for o := far.start(far.r.next.Add(1), req); len(o.done) == 0; {
		if res := far.ask(&wire.Request{Op: wire.OpInspectPath, Path: "h1:/a/x"}); res.Code != wire.OK {
			t.Fatalf("a read meanwhile: %v %q", res.Code, res.Message)
		}
	}
	// One of them is not there, whatever others there are in its group.
	near.must(release("o", "h7:/a/x"))
	for _, c := range []*caller{near, far} {
		res := c.ask(req)
		if res.Code != wire.OK || res.Status != wire.RenewLost || res.Path != "h7" ||
			res.Reason != wire.ReasonMissingAlive {
			t.Errorf("without h7: %v %v %q %v %q", res.Code, res.Status, res.Path, res.Reason, res.Message)
		}
	}
}

// TestAskedAtOnce: the questions that a call has under way take a bounded number of bytes, and there are no more of
// them than a peer answers; what this node answers itself counts for nothing.
func TestAskedAtOnce(t *testing.T) {
	t.Parallel()
	f := apart(t, nil)
	long := slices.Repeat([]string{strings.Repeat("d", 1023) + ":"}, 1000)
	for _, c := range []struct {
		node  int
		names []string
		many  int
		want  int
	}{
		{1, nil, 10, 10},
		{1, []string{"h:"}, 4096, maxPeerReads},
		{1, long, 10, 5},
		{1, long, 1, 1},
		{0, long, 10, 10},
	} {
		s := &steps{n: f.nodes[c.node], c: &wire.Call{}, req: new(wire.Request), since: f.nodes[c.node].clock.Mono()}
		if err := s.caughtUp(); err != nil {
			t.Fatal(err)
		}
		qs := make([]*replica.Query, c.many)
		for i := range qs {
			qs[i] = &replica.Query{What: replica.AskAlive, Group: uint16(i % s.n.cfg.GroupCount), Version: s.version(),
				Owner: "o", Names: c.names}
		}
		if got := s.askedNext(qs); got != c.want {
			t.Errorf("node %d, %d questions of %d names: %d at once, want %d", c.node, c.many,
				len(c.names), got, c.want)
		}
		if res, err := s.askAll(qs); err != nil || len(res) != len(qs) {
			t.Errorf("%d answers, %v", len(res), err)
		}
	}
}
