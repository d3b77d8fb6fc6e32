package groups

import (
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
		stuck = append(stuck,
			c.inTurn(list(u.unled[0]), turns), c.inTurn(&wire.Request{Op: wire.OpDumpLocks}, turns),
			c.inTurn(&wire.Request{Op: wire.OpScanLocks, Path: u.unled[0]}, turns))
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
// with their time; and when more than half of the places of such calls are taken, none waits.
func TestListingsWaitForTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.RequestTimeout = 3 * time.Second })
	c, n := r.session(), r.node
	c.must(write("o", "h:/n/x", time.Hour))
	for _, req := range []*wire.Request{
		{Op: wire.OpListLocks, Owner: "o"}, {Op: wire.OpDumpLocks}, {Op: wire.OpScanLocks, Path: "h:/n"},
	} {
		turns, give, end := turnsOf(2)
		for range 2 {
			c.inTurn(req, turns).answeredIn(t, "one that has a turn", wire.OK, "")
		}
		waits := []*outcome{c.inTurn(req, turns), c.inTurn(req, turns)}
		time.Sleep(200 * time.Millisecond)
		if len(waits[0].done)+len(waits[1].done) > 0 {
			t.Errorf("%v is answered without a turn", req.Op)
		}
		give <- struct{}{}
		eventually(t, "one of them is answered", func() bool { return len(waits[0].done)+len(waits[1].done) == 1 })
		give <- struct{}{}
		for _, o := range waits {
			o.answeredIn(t, "one that waited", wire.OK, "")
		}

		late := c.inTurn(req, turns)
		late.answeredIn(t, "one that has no turn", wire.Unavailable, "had no turn within request_timeout_ms; nothing was read")

		gone := c.inTurn(req, turns)
		eventually(t, "it is under way", n.stepping)
		end()
		gone.answeredIn(t, "one whose connection is gone", wire.Unavailable, "the connection is gone; nothing was read")
	}

	for len(n.slow) < maxStepped/2 {
		n.slow <- struct{}{}
	}
	turns, _, _ := turnsOf(1)
	scan := &wire.Request{Op: wire.OpScanLocks, Path: "h:/n"}
	c.inTurn(scan, turns).answeredIn(t, "one that has a turn while half of the places are taken", wire.OK, "")
	c.inTurn(scan, turns).answeredIn(t, "one that has none", wire.Unavailable, "of 4096 calls that may be carried out in steps")
	for len(n.slow) > 0 {
		<-n.slow
	}
}

// TestGatheringIsSoonOver: a call that has a turn keeps it for five seconds at most, and for what its time leaves.
func TestGatheringIsSoonOver(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.RequestTimeout = time.Minute })
	n := r.node
	for took, left := range map[time.Duration]time.Duration{0: gatherWithin, 58 * time.Second: 2 * time.Second} {
		turns, _, _ := turnsOf(1)
		s := steps{n: n, c: &wire.Call{Turns: turns}, since: n.clock.Mono() - took, places: n.slow}
		if err := s.turn(); err != nil || !s.c.Turn {
			t.Fatal(err)
		}
		if has := s.left(); has > left || has < left-time.Second {
			t.Errorf("%v after it came it has %v to gather, want %v", took, has, left)
		}
	}
}
