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

// TestGatheringIsSoonOver: who has a turn keeps it for half of the time of a call at most: for what it gathers, and when a move has
// it look for its log anew.
func TestGatheringIsSoonOver(t *testing.T) {
	t.Parallel()
	var raft mute
	r := newRig(t, func(c *Config) { c.RequestTimeout = 4 * time.Second; raft.into(c) })
	n := r.node
	q := &query{what: askAny}
	l := n.logOf(q.group)
	raft.silent.Store(l.shard)
	list := &wire.Request{Op: wire.OpListLocks, Owner: "o", Domains: []string{r.namespaceIn(l)}}
	for what, asks := range map[string]func(s *steps) *wire.Error{
		"gathered": func(s *steps) *wire.Error { res := s.ask(q); return res.Err() },
		"anew":     func(s *steps) *wire.Error { _, err := s.list(); return err },
	} {
		for _, turns := range []int{1, 0} {
			began := n.clock.Mono()
			s := steps{n: n, c: new(wire.Call), since: began, req: list}
			want := n.cfg.RequestTimeout
			if turns > 0 {
				want /= 2
				s.c.Turns, _, _ = turnsOf(turns)
			}
			if err := s.turn(); err != nil {
				t.Fatal(err)
			}
			err, took := asks(&s), n.clock.Mono()-began
			if err == nil || err.Code != wire.Unavailable || took < want || took > want+time.Second {
				t.Errorf("%s with %d turns: after %v: %v", what, turns, took, err)
			}
		}
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
