package groups

import (
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// turns are those of a connection, of which so many are free.
func turnsOf(free int) (t *wire.Turns, give chan<- struct{}, end func()) {
	turns, gone := make(chan struct{}, 100), make(chan struct{})
	for range free {
		turns <- struct{}{}
	}
	return &wire.Turns{Free: turns, Gone: gone}, turns, func() { close(gone) }
}

func (c *caller) inTurn(req *wire.Request, turns *wire.Turns) *outcome {
	return c.startAs(c.r.next.Add(1), req, func(call *wire.Call) { call.Turns = turns })
}

// answeredIn waits for an answer, for a turn of which its call has waited or not.
func (o *outcome) answeredIn(t *testing.T, what string, code wire.Code, says string) {
	t.Helper()
	if res := o.get(t, what); res.Code != code || !strings.Contains(res.Message, says) {
		t.Errorf("%s: %v %q, want %v %q", what, res.Code, res.Message, code, says)
	}
}

// TestListingsOfALogWithoutALeaderTakeNoTurn: a connection has but one turn. Listings of a log that nobody leads wait,
// and those of another log are answered all the same, one after the other. Once the log is led all are.
func TestListingsOfALogWithoutALeaderTakeNoTurn(t *testing.T) {
	t.Parallel()
	u := newUnledRig(t)
	c := u.session()
	c.must(write("o", u.led[0]+"/x", time.Hour))
	turns, give, _ := turnsOf(1)
	list := func(ns string) *wire.Request {
		return &wire.Request{Op: wire.OpListLocks, Owner: "o", Domains: []string{ns}}
	}
	u.loses()
	var stuck []*outcome
	for range 20 {
		stuck = append(stuck, c.inTurn(list(u.unled[0]), turns))
	}
	eventually(t, "they wait", u.node.readers[u.log.shard].reading)
	for range 20 {
		res := c.inTurn(list(u.led[0]), turns).get(t, "a listing of another log")
		if res.Code != wire.OK || len(res.List.Infos) != 1 {
			t.Fatalf("a listing of another log: %v", res.Err())
		}
		give <- struct{}{}
	}
	for _, o := range stuck {
		if len(o.done) > 0 {
			t.Fatal("a listing is answered before its log is led")
		}
	}
	u.finds()
	for range stuck {
		give <- struct{}{}
	}
	for _, o := range stuck {
		o.answeredIn(t, "a listing of the log", wire.OK, "")
	}
}

// TestListingsWaitForTurns: listings of a connection are gathered in its turns, and not before. They end with the
// connection, and with their time; and when more than half of the places of such calls are taken, few of a connection
// wait.
func TestListingsWaitForTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.RequestTimeout = 3 * time.Second })
	c, n := r.session(), r.node
	c.must(write("o", "h:/n/x", time.Hour))
	list := &wire.Request{Op: wire.OpListLocks, Owner: "o", Domains: []string{"h:/n"}}
	turns, give, end := turnsOf(2)
	for range 2 {
		c.inTurn(list, turns).answeredIn(t, "one that has a turn", wire.OK, "")
	}
	const many = 3 * wire.MaxGathered
	var waits []*outcome
	for range many {
		waits = append(waits, c.inTurn(list, turns))
	}
	answered := func() (n int) {
		for _, o := range waits {
			n += len(o.done)
		}
		return n
	}
	eventually(t, "they wait", func() bool { return turns.Waiting.Load() == many })
	if answered() > 0 {
		t.Error("one is answered without a turn")
	}
	give <- struct{}{}
	eventually(t, "one of them is answered", func() bool { return turns.Waiting.Load() == many-1 && answered() == 1 })
	for range many - 1 {
		give <- struct{}{}
	}
	for _, o := range waits {
		o.answeredIn(t, "one that waited", wire.OK, "")
	}
	c.inTurn(list, turns).answeredIn(t, "one that has none", wire.Unavailable,
		"had no turn within request_timeout_ms; nothing was read")

	for len(n.slow) < maxStepped/2+1 {
		n.slow <- struct{}{}
	}
	waits = nil
	for range 2 * wire.MaxGathered {
		waits = append(waits, c.inTurn(list, turns))
	}
	eventually(t, "they wait", func() bool { return turns.Waiting.Load() == 2*wire.MaxGathered })
	c.inTurn(list, turns).answeredIn(t, "one more", wire.Unavailable,
		"17 listings of this connection wait for those to be read")
	others, _, _ := turnsOf(0)
	waits = append(waits, c.inTurn(list, others))
	eventually(t, "one of another connection waits", func() bool { return others.Waiting.Load() == 1 })
	end()
	for _, o := range waits[:len(waits)-1] {
		o.answeredIn(t, "one whose connection is gone", wire.Unavailable, "the connection is gone; nothing was read")
	}
	waits[len(waits)-1].answeredIn(t, "one of another connection", wire.Unavailable, "had no turn")
	for len(n.slow) > 0 {
		<-n.slow
	}
}

// gathers is a node without replicas, of which a connection has one turn and one listing.
type gathers struct {
	*rig
	t     *testing.T
	raft  mute // of the node that leads
	l     *shardLog
	s     *steps
	turns *wire.Turns
	done  chan *wire.Error
}

// asks has the listing find where its owner is, and wait for its turn; end ends its connection.
func (g *gathers) asks(ns string) (end func()) {
	g.t.Helper()
	g.turns, _, end = turnsOf(0)
	s := &steps{
		n: g.node, c: &wire.Call{Turns: g.turns}, since: g.node.clock.Mono(), places: g.node.slow,
		only: map[uint64]bool{g.l.shard: true},
	}
	g.s, g.done = s, make(chan *wire.Error, 1)
	go func() {
		_, err := s.gather(&replica.Query{What: replica.AskList, Owner: "o", Names: []string{ns}})
		g.done <- err
	}()
	eventually(g.t, "it waits for a turn", func() bool { return g.turns.Waiting.Load() == 1 })
	return end
}

// gives lets it have its turn, waits until it gives that back, and answers how long that takes.
func (g *gathers) gives() time.Duration {
	g.t.Helper()
	began := g.node.clock.Mono()
	g.turns.Free <- struct{}{}
	eventually(g.t, "it has its turn", func() bool { return g.turns.Waiting.Load() == 0 })
	eventually(g.t, "it gives it back", func() bool { return len(g.turns.Free) == 1 })
	if len(g.done) > 0 {
		g.t.Error("it has its turn until it is answered")
	}
	return g.node.clock.Mono() - began
}

// over tells how it ends.
func (g *gathers) over(code wire.Code, turn bool) {
	g.t.Helper()
	select {
	case err := <-g.done:
		got := wire.OK
		if err != nil {
			got = err.Code
		}
		if got != code || g.s.c.Turn != turn || g.node.turning.Load() != 0 {
			g.t.Errorf("it is answered %v, with a turn: %t, and %d wait, want %v, %t and none", err, g.s.c.Turn,
				g.node.turning.Load(), code, turn)
		}
	case <-time.After(patience):
		g.t.Fatal("it is not answered")
	}
}

// swallows is a way to a node on which all is lost.
type swallows struct{}

func (swallows) Send([]byte) bool { return true }
func (swallows) Unsent() int      { return 0 }
func (swallows) Close(error)      {}

// TestNobodyWaitsInATurn: who has a turn does not wait for a leader. It is answered by who leads, though that cannot
// say any more whether it does; when that is gone, it gives its turn back, and asks the next. When the way there hangs
// it has its turn for half of its time.
func TestNobodyWaitsInATurn(t *testing.T) {
	t.Parallel()
	g := &gathers{t: t}
	f := newLocalCluster(t, 2, func(i int, c *Config) {
		c.StabilityWindow, c.ReplicationFactor, c.RequestTimeout = time.Hour, 1, 6*time.Second
		if i == 0 {
			g.raft.into(c)
		}
	})
	g.rig = f.rigOn(1)
	f.until("the node is ready", func() bool { return g.node.health().Flag })
	n := g.node
	const ns = "h:/n"
	g.l = n.logOf(n.groupOf(ns))
	if g.l.own() != nil {
		t.Fatal("the node has a replica")
	}
	g.session().must(write("o", ns+"/x", time.Hour))

	t.Run("the leader is silent", func(t *testing.T) {
		g.asks(ns)
		g.raft.silent.Store(g.l.shard)
		defer g.raft.silent.Store(0)
		g.turns.Free <- struct{}{}
		g.over(wire.OK, true)
	})
	t.Run("it is behind", func(t *testing.T) {
		defer g.raft.silent.Store(0)
		m := f.nodes[0].logs[g.l.shard].own()
		defer m.Installing.Store(false)
		_, applied := m.Find("o")
		for _, of := range []struct {
			silent   uint64
			more     int64
			replaced bool
			says     string
		}{{g.l.shard, 0, false, ""}, {0, 1000, false, errReadLate.Message}, {0, 0, true, errReadLate.Message}} {
			g.raft.silent.Store(of.silent)
			m.Installing.Store(of.replaced)
			q := &replica.Query{What: replica.AskList, Group: n.groupOf(ns), Version: replica.AnyVersion, Owner: "o",
				Names: []string{ns}, Token: int64(applied) + of.more}
			if res := n.askLeader(g.l, q, n.clock.Mono()-n.cfg.RequestTimeout+time.Second); res.Message != of.says {
				t.Errorf("%+v: %v", of, res.Err())
			}
		}
	})
	for name, hangsUp := range map[string]bool{"each leader is lost": false,
		"each leader is lost, and the connection": true} {
		t.Run(name, func(t *testing.T) {
			end := g.asks(ns)
			turns := g.turns
			dial := func(host string) peerConn {
				if turns.Waiting.Load() == 0 && len(turns.Free) == 0 { // it has its turn
					return nil
				}
				return n.cluster.conn(host)
			}
			n.forwards.dial.Store(&dial)
			defer n.forwards.dial.Store(nil)
			g.turns.Free <- struct{}{}
			if hangsUp {
				end()
			}
			g.over(wire.Unavailable, false)
			if took := n.clock.Mono() - g.s.since; took < n.cfg.RequestTimeout != hangsUp || len(g.turns.Free) != 1 {
				t.Errorf("it ends after %v, %d turns are free", took, len(g.turns.Free))
			}
		})
	}
	for name, way := range map[string]struct {
		dial   func(string) peerConn
		within time.Duration // at least
	}{
		"the leader is gone": {func(string) peerConn { return nil }, 0},
		"the way hangs":      {func(string) peerConn { return swallows{} }, n.cfg.RequestTimeout / 2},
	} {
		t.Run(name, func(t *testing.T) {
			g.asks(ns)
			n.forwards.dial.Store(&way.dial)
			defer n.forwards.dial.Store(nil)
			if took := g.gives(); took < way.within {
				t.Errorf("it has its turn for %v, want %v", took, way.within)
			}
			n.forwards.dial.Store(nil)
			g.over(wire.OK, true)
			if len(g.turns.Free) != 0 {
				t.Errorf("%d turns are free", len(g.turns.Free))
			}
		})
		t.Run(name+" for good", func(t *testing.T) {
			g.asks(ns)
			n.forwards.dial.Store(&way.dial)
			defer n.forwards.dial.Store(nil)
			g.gives()
			g.over(wire.Unavailable, false)
			if took := n.clock.Mono() - g.s.since; took < n.cfg.RequestTimeout || len(g.turns.Free) != 1 {
				t.Errorf("it ends after %v, %d turns are free", took, len(g.turns.Free))
			}
		})
	}
}

// TestTurnsOfWhatIsMoved: a listing that a move overtook gives its turn back.
func TestTurnsOfWhatIsMoved(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c := r.session()
	c.must(write("o", "h:/n/x", time.Hour))
	c.must(&wire.Request{Op: wire.OpSetPolicy, Namespace: "h:/n/deep", Algorithm: wire.RecursiveRW})
	group := r.node.groupOf("h:/n")
	eventually(t, "the group is touched", func() bool {
		_, moved := r.node.logOf(group).own().View(group).Overtaken(0)
		return moved
	})
	turns, _, _ := turnsOf(1)
	s := steps{
		n: r.node, c: &wire.Call{Turns: turns}, since: r.node.clock.Mono(), places: r.node.slow,
		routes: new(wire.Routes),
		req:    &wire.Request{Op: wire.OpListLocks, Owner: "o", Domains: []string{"h:/n"}},
	}
	if _, err := s.gather(&replica.Query{What: replica.AskList, Owner: "o", Names: s.req.Domains}); err != errMoved ||
		len(turns.Free) != 1 || s.c.Turn {
		t.Errorf("%v; %d turns are free, it has one: %t", err, len(turns.Free), s.c.Turn)
	}
	if res, err := s.list(); err != nil || len(res.List.Infos) != 1 || len(turns.Free) != 0 || !s.c.Turn {
		t.Errorf("anew: %v; %d turns are free, it has one: %t", err, len(turns.Free), s.c.Turn)
	}
}

// TestPlacesOfThoseWhoDoNotRead: very many connections whose clients do not read list as much as waits for turns in any
// case. What others ask in steps has its places.
func TestPlacesOfThoseWhoDoNotRead(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.RequestTimeout = patience })
	c, n := r.session(), r.node
	c.must(write("o", "h:/n/x", time.Hour))
	list := &wire.Request{Op: wire.OpListLocks, Owner: "o", Domains: []string{"h:/n"}}
	const quarter = maxStepped / 4
	var asked []*outcome
	var ends []func()
	for range quarter / (2 * wire.MaxGathered) {
		turns, _, end := turnsOf(0)
		ends = append(ends, end)
		for range 2 * wire.MaxGathered {
			asked = append(asked, c.inTurn(list, turns))
		}
	}
	eventually(t, "they wait", func() bool { return n.turning.Load() == quarter })
	other, give, end := turnsOf(0)
	c.inTurn(list, other).answeredIn(t, "one more", wire.Unavailable,
		"1025 listings wait for those of their connections to be read that are answered, at most 1024 may; "+
			"nothing was read")
	give <- struct{}{}
	c.inTurn(list, other).answeredIn(t, "one that has a turn", wire.OK, "")
	if res := c.ask(&wire.Request{Op: wire.OpRenew, Owner: "o", TTLMillis: 3_600_000}); res.Code != wire.OK {
		t.Errorf("a renewal: %v", res.Err())
	}
	for _, end := range append(ends, end) {
		end()
	}
	for _, o := range asked {
		o.answeredIn(t, "one that waited", wire.Unavailable, "the connection is gone")
	}
}
