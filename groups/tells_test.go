package groups

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// listening is a session that is told what happens to its leases at a node.
type listening struct {
	*caller
	mu   sync.Mutex
	told []string
	stop func()
}

func (r *rig) listening() *listening {
	l := &listening{caller: r.session()}
	l.hears(r.node)
	return l
}

// hears has the session be told at a node.
func (l *listening) hears(n *Node) {
	l.stop = n.Tell(l.session.ID, func(e *wire.LeaseEvent) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if e.Kind == 0 {
			l.told = append(l.told, "missed")
			return
		}
		l.told = append(l.told, fmt.Sprintf("%v %s %s %d", e.Kind, e.Owner, e.Namespace, e.Acquires))
	})
}

func (l *listening) heard() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.told)
}

// takes has it take a path with a lease that is tied to it, and answers what it is to be told of that.
func (l *listening) takes(kind wire.EventKind, owner, path, ns string) (says string) {
	l.r.t.Helper()
	req := write(owner, path, time.Hour)
	req.Flags |= wire.FlagBind
	l.must(req)
	return fmt.Sprintf("%v %s %s %d", kind, owner, ns, []uint64{wire.AcquireMark(l.session.ID, l.r.next.Load())})
}

func kill(owner string) *wire.Request { return &wire.Request{Op: wire.OpForceRelease, Owner: owner} }

// TestTellsOfLeases: a session is told what happens to its leases, with the acquire that took each, and no other
// session's; and nothing when it wants to hear no more.
func TestTellsOfLeases(t *testing.T) {
	r := newRig(t, nil)
	a, b := r.listening(), r.listening()
	var want []string
	for i := range 5 {
		owner := fmt.Sprint("o", i)
		says := a.takes(wire.EventKilled, owner, "h:/a/"+owner, "h:/a")
		want = append(want, says)
		b.must(kill(owner))
		r.told()
	}
	want = append(want, a.takes(wire.EventRevoke, "p", "h:/a/p", "h:/a"))
	b.must(&wire.Request{Op: wire.OpRequestRevoke, Owner: "p"})
	r.told()
	a.must(release("p", "h:/a/p"))
	loose := write("q", "h:/a/q", time.Hour) // which is tied to nothing
	a.must(loose)
	b.must(kill("q"))
	r.told()
	if got := a.heard(); !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
	if got := b.heard(); len(got) != 0 {
		t.Errorf("another session was told %q", got)
	}
	a.takes(wire.EventKilled, "o", "h:/a/x", "h:/a")
	a.stop()
	b.must(kill("o"))
	r.told()
	if got := a.heard(); len(got) != len(want) {
		t.Errorf("told %q after its end", got[len(want):])
	}
	if h := r.node.hub; len(h.Leases.By) != 1 || len(h.Leases.All) != 1 {
		t.Errorf("%d sessions and %d connections are kept, want one", len(h.Leases.By), len(h.Leases.All))
	}
}

// TestTellsEverywhere: a session is told at whichever of three nodes it is connected to, of logs that this one does
// not lead; and where it goes on, of what it took before.
func TestTellsEverywhere(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 3, nil)
	f.settle(3)
	killer := f.rigOn(0).session()
	for i := range f.nodes {
		r := f.rigOn(i)
		l := r.listening()
		want := make(map[string]bool)
		for k := range 8 { // of which each node leads some
			owner := fmt.Sprintf("o%d-%d", i, k)
			want[l.takes(wire.EventKilled, owner, fmt.Sprintf("h:/%d/x", k), fmt.Sprintf("h:/%d", k))] = true
			killer.must(kill(owner))
		}
		toldAll := func() bool {
			for _, says := range l.heard() {
				delete(want, says)
			}
			return len(want) == 0
		}
		f.until("it is told all", toldAll) // the kills are answered when the leaders have carried them out
		want[l.takes(wire.EventKilled, fmt.Sprint("moved", i), "h:/moved/x", "h:/moved")] = true
		l.stop()
		l.hears(f.nodes[(i+1)%3])
		killer.must(kill(fmt.Sprint("moved", i)))
		f.until("it is told all where it goes on", toldAll)
		l.stop()
	}
}

// TestTellsWhereFed: a node without a replica is told by the node that feeds it; and when that could not be, who is
// connected there hears that he may have missed something.
func TestTellsWhereFed(t *testing.T) {
	t.Parallel()
	const path = "h:/fed/x"
	w := new(network)
	f := apart(t, func(_ int, c *Config) {
		c.Faults = w
		c.ElectionMin, c.Heartbeat = 30*time.Second, time.Second
	})
	n := f.nodes[0]
	shard := n.logOf(n.groupOf(n.routes.Load().Resolve(path))).shard
	f.listen(1, 0, shard)
	r := f.rigOn(1)
	l, killer := r.listening(), f.rigOn(0).session()
	says := l.takes(wire.EventKilled, "o", path, "h:/fed")
	killer.must(kill("o"))
	f.until("it is told", func() bool { return slices.Contains(l.heard(), says) })

	missed := func() (n int) {
		for _, says := range l.heard() {
			if says == "missed" {
				n++
			}
		}
		return n
	}
	gap := func(what string, do func()) {
		t.Helper()
		before := missed()
		do()
		f.until(what, func() bool { return missed() > before })
	}
	says = l.takes(wire.EventKilled, "o", path, "h:/fed")
	gap("it hears that it may have missed something, as the way was cut", func() {
		w.set("n-1", true)
		killer.must(kill("o"))
		w.set("n-1", false)
	})
	gap("its source has jumped", func() { n.hub.Missed(shard, n.hub.Where(shard).Index+1) })
	says = l.takes(wire.EventKilled, "o", path, "h:/fed")
	killer.must(kill("o"))
	f.until("it is told of what comes", func() bool { return slices.Contains(l.heard(), says) })
}
