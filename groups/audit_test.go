package groups

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestGivenUpAndBack: a voter is cut off, given up, and back. Who leads its log tells it so, or led it before; its
// replica hears of nobody. It finds out at once that it has none any more, however seldom it asks, and takes writes;
// also those that came before that.
func TestGivenUpAndBack(t *testing.T) {
	t.Parallel()
	for name, moves := range map[string]bool{"the leader stays": false, "another one leads": true} {
		t.Run(name, func(t *testing.T) { givenUpAndBack(t, moves) })
	}
}

func givenUpAndBack(t *testing.T, moves bool) {
	w := new(network)
	f := newLocalCluster(t, 4, func(_ int, c *Config) {
		c.Faults, c.EvictionWindow, c.LogCount, c.AuditEvery, c.RequestTimeout = w, 2*time.Second, 1,
			time.Hour, time.Minute
	})
	f.placed(4)
	leader, at := f.nodes[f.leader("h:/x")], -1
	for i, n := range f.nodes {
		if l := n.logs[rows.FirstLog]; n != leader && l.toldByRaft() && !l.deserted() {
			at = i
		}
	}
	if at < 0 {
		t.Fatal("no voter")
	}
	n, r := f.nodes[at], f.rigOn(at)
	l, old := n.logs[rows.FirstLog], n.logs[rows.FirstLog].local.Load()
	r.session().must(write("before", "h:/x", time.Hour))

	w.set(n.id.NodeID, true)
	member := func() bool {
		for _, o := range f.nodes {
			if !o.logs[rows.FirstLog].leads() {
				continue
			}
			ms, err := o.membership(rows.FirstLog)
			if err != nil {
				return true
			}
			_, gone := ms.Removed[old.Replica]
			return !gone
		}
		return true
	}
	f.until("it is given up", func() bool { return !member() })
	// Nor is it asked to have another one, in whose place it would drop the one that it has.
	drain := &wire.Request{Op: wire.OpNodeDrain, Node: n.id.NodeID, Drain: wire.DrainReplicas}
	there := f.rigOn(slices.Index(f.nodes, leader)).session()
	f.until("it is to hold nothing", func() bool { return there.ask(drain).Code == wire.OK })
	f.until("it knows of no leader", l.deserted)
	if moves {
		f.until("another one leads", func() bool {
			for _, o := range f.nodes {
				if l := o.logs[rows.FirstLog]; o != n && o != leader && l.toldByRaft() {
					_ = leader.transferAny(rows.FirstLog, o.id.NodeID)
					return l.leads()
				}
			}
			return false
		})
	}
	if l.local.Load() != old {
		t.Fatal("this shows nothing: it knows that it was given up")
	}
	early := r.session().start(r.next.Add(1), write("early", "h:/early", time.Hour))
	w.set(n.id.NodeID, false)
	f.until("its replica is gone", func() bool { return l.local.Load() != old })
	f.until("a write passes", func() bool { return r.session().ask(noQueue("h:/y")).Code == wire.OK })
	f.until("what was asked before that is answered", func() bool { return len(early.done) > 0 })
	if res := <-early.done; res.Code != wire.OK {
		t.Errorf("asked before that: %v %s", res.Code, res.Message)
	}
}

// TestAuditUnanswered: what called for an audit comes once; the audit is repeated, ever more rarely, until it is
// answered.
func TestAuditUnanswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &Node{cfg: Config{AuditEvery: time.Hour}, stop: make(chan struct{}), audits: make(chan struct{}, 1)}
		began := time.Now()
		var at []time.Duration
		unanswered := 4
		go n.auditLoop(func() bool {
			at = append(at, time.Since(began))
			unanswered--
			return unanswered < 0
		})
		n.auditSoon()
		time.Sleep(time.Minute)
		synctest.Wait()
		unanswered = 1
		n.auditSoon()
		time.Sleep(time.Minute)
		close(n.stop)
		synctest.Wait()
		want := []time.Duration{
			0, 2 * auditGap, 6 * auditGap, 14 * auditGap, 30 * auditGap, time.Minute, time.Minute + 2*auditGap,
		}
		if !slices.Equal(at, want) {
			t.Errorf("asked at %v, want %v", at, want)
		}
	})
}
