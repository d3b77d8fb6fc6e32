package groups

import (
	"fmt"
	"strings"
	"testing"
	"time"

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

// TestListingsOfALogWithoutALeaderTakeNoTurn: a connection has but one turn. Listings of a log that nobody leads wait, and those
// of another log are answered all the same, one after the other. Once the log is led all are.
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

// TestListingsWaitForTurns: listings of a connection are gathered in its turns, and not before. They end with the connection, and
// with their time; and when more than half of the places of such calls are taken, few of a connection wait.
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
	c.inTurn(list, turns).answeredIn(t, "one that has none", wire.Unavailable, "had no turn within request_timeout_ms; nothing was read")

	for len(n.slow) < maxStepped/2+1 {
		n.slow <- struct{}{}
	}
	waits = nil
	for range 2 * wire.MaxGathered {
		waits = append(waits, c.inTurn(list, turns))
	}
	eventually(t, "they wait", func() bool { return turns.Waiting.Load() == 2*wire.MaxGathered })
	c.inTurn(list, turns).answeredIn(t, "one more", wire.Unavailable, "17 listings of this connection wait for those to be read")
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

// listens is a listing whose log can be silenced, of a connection that has one turn.
type listens struct {
	t     *testing.T
	raft  mute
	n     *Node
	l     *shardLog
	s     steps
	turns *wire.Turns
	done  chan *wire.Error
}

// newListing is one that has found where its owner is and has no turn.
func newListing(t *testing.T) *listens {
	o := &listens{t: t, done: make(chan *wire.Error, 1)}
	r := newRig(t, func(c *Config) { c.RequestTimeout = 8 * time.Second; o.raft.into(c) })
	o.n = r.node
	ns := r.namespaceIn(o.n.logs[o.n.id.shards()[1]])
	o.l = o.n.logOf(o.n.groupOf(ns))
	c := r.session()
	c.must(write("o", ns+"/x", time.Hour))
	o.turns, _, _ = turnsOf(0)
	// What it asks goes the way of a node without a replica, as nothing was caught up.
	o.s = steps{
		n: o.n, c: &wire.Call{Turns: o.turns}, since: o.n.clock.Mono(), places: o.n.slow,
		only: map[uint64]bool{o.l.shard: true},
	}
	go func() {
		_, err := o.s.gather(&query{what: askList, owner: "o", names: []string{ns}})
		o.done <- err
	}()
	o.waits()
	return o
}

func (o *listens) waits() {
	o.t.Helper()
	eventually(o.t, "it waits for a turn", func() bool { return o.turns.Waiting.Load() == 1 })
}

// silent has the log be silent when it has its turn, and answers how long it keeps that.
func (o *listens) silent() time.Duration {
	o.t.Helper()
	o.raft.silent.Store(o.l.shard)
	began := o.n.clock.Mono()
	o.turns.Free <- struct{}{}
	eventually(o.t, "it has its turn", func() bool { return len(o.turns.Free) == 0 })
	eventually(o.t, "it gives it back", func() bool { return len(o.turns.Free) == 1 })
	return o.n.clock.Mono() - began
}

// over tells how it ends.
func (o *listens) over(code wire.Code, turn bool) {
	o.t.Helper()
	select {
	case err := <-o.done:
		got := wire.OK
		if err != nil {
			got = err.Code
		}
		if got != code || o.s.c.Turn != turn || o.n.turning.Load() != 0 {
			o.t.Errorf("it is answered %v, with a turn: %t, and %d wait, want %v, %t and none", err, o.s.c.Turn, o.n.turning.Load(), code, turn)
		}
	case <-time.After(patience):
		o.t.Fatal("it is not answered")
	}
}

// TestGatheringIsSoonOver: who has a turn keeps it for an eighth of the time of a call when its log loses its leader, and
// then waits without one: others have theirs meanwhile. After that it keeps it for half of the time.
func TestGatheringIsSoonOver(t *testing.T) {
	t.Parallel()
	const late = time.Second
	t.Run("the log is led again", func(t *testing.T) {
		t.Parallel()
		o := newListing(t)
		want := o.n.cfg.RequestTimeout / 8
		if took := o.silent(); took < want || took > want+late {
			t.Errorf("it keeps its turn for %v, want %v", took, want)
		}
		o.raft.silent.Store(0)
		o.over(wire.OK, true)
	})
	t.Run("it is not", func(t *testing.T) {
		t.Parallel()
		o := newListing(t)
		o.silent()
		o.over(wire.Unavailable, false)
		if took := o.n.clock.Mono() - o.s.since; took < o.n.cfg.RequestTimeout {
			t.Errorf("it ends after %v", took)
		}
	})
	t.Run("twice", func(t *testing.T) {
		t.Parallel()
		o := newListing(t)
		o.silent()
		<-o.turns.Free
		o.raft.silent.Store(0)
		o.waits()
		want := min(o.n.cfg.RequestTimeout/2, o.s.since+o.n.cfg.RequestTimeout-o.n.clock.Mono()-late)
		if took := o.silent(); took < want || took > o.n.cfg.RequestTimeout/2+late {
			t.Errorf("it keeps its second turn for %v, want %v", took, o.n.cfg.RequestTimeout/2)
		}
		o.over(wire.Unavailable, false)
	})
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
		_, moved := r.node.logOf(group).own().view(group).Overtaken(0)
		return moved
	})
	turns, _, _ := turnsOf(1)
	s := steps{
		n: r.node, c: &wire.Call{Turns: turns}, since: r.node.clock.Mono(), places: r.node.slow, routes: new(wire.Routes),
		req: &wire.Request{Op: wire.OpListLocks, Owner: "o", Domains: []string{"h:/n"}},
	}
	if _, err := s.gather(&query{what: askList, owner: "o", names: s.req.Domains}); err != errMoved || len(turns.Free) != 1 || s.c.Turn {
		t.Errorf("%v; %d turns are free, it has one: %t", err, len(turns.Free), s.c.Turn)
	}
	if res, err := s.list(); err != nil || len(res.List.Infos) != 1 || len(turns.Free) != 0 || !s.c.Turn {
		t.Errorf("anew: %v; %d turns are free, it has one: %t", err, len(turns.Free), s.c.Turn)
	}
}

// TestPlacesOfThoseWhoDoNotRead: very many connections whose clients do not read list as much as waits for turns in any case.
// What others ask in steps has its places.
func TestPlacesOfThoseWhoDoNotRead(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.RequestTimeout = patience })
	c, n := r.session(), r.node
	c.must(write("o", "h:/n/x", time.Hour))
	list := &wire.Request{Op: wire.OpListLocks, Owner: "o", Domains: []string{"h:/n"}}
	const half = maxStepped / 2
	var asked []*outcome
	ends := make(map[*wire.Turns]func())
	for range half / (2 * wire.MaxGathered) {
		turns, _, end := turnsOf(0)
		ends[turns] = end
		for range 2 * wire.MaxGathered {
			asked = append(asked, c.inTurn(list, turns))
		}
	}
	eventually(t, "they wait", func() bool { return n.turning.Load() == half })
	other, give, end := turnsOf(0)
	c.inTurn(list, other).answeredIn(t, "one more", wire.Unavailable,
		"2049 listings wait for those of their connections to be read that are answered, at most 2048 may; nothing was read")
	give <- struct{}{}
	c.inTurn(list, other).answeredIn(t, "one that has a turn", wire.OK, "")
	if res := c.ask(&wire.Request{Op: wire.OpRenew, Owner: "o", TTLMillis: 3_600_000}); res.Code != wire.OK {
		t.Errorf("a renewal: %v", res.Err())
	}
	for _, end := range ends {
		end()
	}
	end()
	for _, o := range asked {
		o.answeredIn(t, "one that waited", wire.Unavailable, "the connection is gone")
	}
}

// namespaceIn answers a namespace of a log.
func (r *rig) namespaceIn(l *shardLog) string {
	for i := 0; ; i++ {
		if ns := fmt.Sprintf("h:/n%d", i); r.node.logOf(r.node.groupOf(ns)) == l {
			return ns
		}
	}
}
