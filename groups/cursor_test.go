package groups

import (
	"slices"
	"testing"

	"github.com/pathlockd/pathlockd/internal/testkit/observed"
	"github.com/pathlockd/pathlockd/wire"
)

// TestCursorOfAnotherCluster: whoever comes with a cursor of the cluster that was backed
// up is told of a gap by the one that was restored, whatever the logs have in it, and of
// everything from then on.
func TestCursorOfAnotherCluster(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	listen := func(n *Node, from []wire.Position) (*observed.Events, []wire.Position) {
		t.Helper()
		e := new(observed.Events)
		at, err := n.Subscribe(&wire.Subscription{Owner: "o", Sink: e, From: from})
		if err != nil {
			t.Fatal(err)
		}
		return e, at
	}
	dir := r.save(nil)
	for range 20 { // so that the old logs are longer than the new ones
		c.must(&wire.Request{Op: wire.OpRequestRevoke, Owner: "o"})
	}
	_, old := listen(r.node, nil)
	other, _ := r.restore(dir)
	oc := other.session()
	first, _ := listen(other.node, nil)
	told := 0
	// Events are told by and by: who comes when one was told of hears of it no more.
	revoke := func() {
		oc.must(&wire.Request{Op: wire.OpRequestRevoke, Owner: "o"})
		told++
		eventually(t, "the event is told", func() bool { got, _ := first.Told(); return len(got) == told })
	}
	revoke()
	behind := slices.Clone(old)
	for i := range behind {
		if behind[i].Log != 0 { // the mark, that is
			behind[i] = wire.Position{Log: behind[i].Log}
		}
	}
	for name, one := range map[string]struct {
		from func(own []wire.Position) []wire.Position
		gaps int
	}{
		"none":    {func([]wire.Position) []wire.Position { return nil }, 0},
		"its own": {func(own []wire.Position) []wire.Position { return own }, 0},
		"ahead":   {func([]wire.Position) []wire.Position { return old }, 1},
		"behind":  {func([]wire.Position) []wire.Position { return behind }, 1},
		"of no cluster": {func(own []wire.Position) []wire.Position {
			return slices.DeleteFunc(own, func(p wire.Position) bool { return p.Log == 0 })
		}, 1},
		"of a log of no cluster": {func([]wire.Position) []wire.Position {
			return []wire.Position{{Log: 1 << 40,
				Index: 1}}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, own := listen(other.node, nil)
			e, at := listen(other.node, one.from(own))
			revoke()
			eventually(t, "an event", func() bool { got, _ := e.Told(); return len(got) > 0 })
			if got, gaps := e.Told(); len(got) != 1 || gaps != one.gaps {
				t.Errorf("heard %q and of %d gaps, want one event and %d", got, gaps, one.gaps)
			}
			if !slices.Contains(at, other.node.hub.Mark) {
				t.Errorf("the cursor %v has no mark", at)
			}
		})
	}
}
