package replica

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestNothingIsCarriedOutTwice: a repeat whose answer is not kept any more is refused with a
// code of its own, however many requests came behind it, on whatever connection.
func TestNothingIsCarriedOutTwice(t *testing.T) {
	for name, settles := range map[string]bool{"never settles": false, "settles": true} {
		t.Run(name, func(t *testing.T) {
			b := newBare(t, rows.SystemLog, DefaultLimits())
			s := bareSession(1)
			incr := func(s *wire.Session, id, settled uint64) *bareCall {
				a := bareAsk(s, id, &wire.Request{Op: wire.OpIncrToken})
				a.Settled = settled
				return a
			}
			first := b.one(incr(s, 1, 0))
			const last = 3000
			room := uint64(s.Window)
			if settles {
				room = MaxWindow
			}
			for id := uint64(2); id <= last; id++ {
				settled := uint64(0)
				if settles {
					settled = 1
				}
				if res := b.one(incr(s, id, settled)); res.Token != int64(id) {
					t.Fatalf("request %d got %+v", id, res)
				}
			}
			for _, again := range []string{"by a node that does not know", "on the same connection",
				"on a later connection"} {
				if again == "on a later connection" {
					s = later(s)
				}
				for _, id := range []uint64{1, 2, last - room, last - room + 1, last} {
					a := incr(s, id, 0)
					a.tried, a.Again = again == "by a node that does not know", again == "on the same connection"
					res := b.one(a)
					if kept := id > last-room; kept && res.Token != int64(id) || !kept && res.Code != wire.Forgotten {
						t.Errorf("%s: the repeat of %d got %+v", again, id, res)
					}
				}
				b.reload()
			}
			if res := b.one(incr(s, last+1, 0)); res.Token != last+1 || first.Token != 1 {
				t.Errorf("the next token is %+v: something was carried out twice", res)
			}
		})
	}
}

// TestSettled: what the client has the answer to is let go of at once, and what it has not is
// kept.
func TestSettled(t *testing.T) {
	b := newBare(t, rows.SystemLog, DefaultLimits())
	s := bareSession(1)
	incr := func(s *wire.Session, id, settled uint64) wire.Result {
		a := bareAsk(s, id, &wire.Request{Op: wire.OpIncrToken})
		a.Settled = settled
		return b.one(a)
	}
	for id := uint64(1); id <= 100; id++ {
		incr(s, id, id-min(id-1, 10))
	}
	if kept := len(b.session(s).kept()); kept != 11 {
		t.Errorf("%d answers are kept, of which 11 are not settled", kept)
	}
	s = later(s)
	for id, want := range map[uint64]wire.Code{89: wire.Forgotten, 90: wire.OK, 100: wire.OK} {
		if res := incr(s, id, 0); res.Code != want || want == wire.OK && res.Token != int64(id) {
			t.Errorf("the repeat of %d got %+v", id, res)
		}
	}
	if res := incr(s, 101, 101); res.Token != 101 || len(b.session(s).kept()) != 1 {
		t.Errorf("got %+v, and %d answers are kept", res, len(b.session(s).kept()))
	}
}

// TestLateRequestsAreNoRepeats: what comes to a log behind many later requests of its
// connection is carried out, as it was never asked before.
func TestLateRequestsAreNoRepeats(t *testing.T) {
	b := newBare(t, rows.FirstLog, DefaultLimits())
	s := bareSession(1)
	for range 2 { // on the first connection, and on a later one
		from := 1000 * s.Epoch
		for id := from + 1; id < from+100; id++ {
			b.one(bareAsk(s, id, write("a", fmt.Sprintf("h:/a/%d", id), time.Hour)))
		}
		if res := b.one(bareAsk(s, from, write("b", fmt.Sprintf("h:/a/%d", from), time.Hour))); res.Code != wire.OK ||
			res.Status != wire.StatusOK {
			t.Errorf("a request that came late is answered %+v", res)
		}
		s = later(s)
		b.one(bareAsk(s, from+500, &wire.Request{Op: wire.OpRenew, Owner: "a", TTLMillis: 1000}))
	}
}

// TestLongWait: a session that waits longer than sessions are remembered is answered its
// repeats: its grant is known, and once it is lost not carried out again.
func TestLongWait(t *testing.T) {
	for name, repeats := range map[string]bool{"repeated while it is held": true, "repeated when it is lost": false} {
		t.Run(name, func(t *testing.T) { testLongWait(t, repeats) })
	}
}

func testLongWait(t *testing.T, repeats bool) {
	b := newBare(t, rows.FirstLog, DefaultLimits())
	holder, waits := bareSession(1), bareSession(2)
	b.one(bareAsk(holder, 1, write("h", "h:/a/x", time.Hour)))
	req := waiting(write("w", "h:/a/x", time.Hour))
	req.QueueTTLMillis = 3_600_000
	a := bareAsk(waits, 7, req)
	if res := b.one(a); res.Status != wire.StatusQueued {
		t.Fatalf("%+v", res)
	}
	b.do(3 * rememberMillis)
	b.reload()
	b.do(3 * rememberMillis)
	b.one(bareAsk(holder, 2, release("h", "h:/a/x")))
	if len(a.res) != 1 || a.res[0].Status != wire.StatusOK {
		t.Fatalf("the wait is answered %+v", a.res)
	}
	b.do(rememberMillis - 1000)
	if !repeats {
		// its client does not ask before it is too late
	} else if res := b.one(bareAsk(later(waits), 7, req)); res.Status != wire.StatusOK || res.Token != a.res[0].Token {
		t.Errorf("the repeat of a grant is answered %+v, it was %+v", res, a.res[0])
	}
	b.one(bareAsk(bareSession(3), 1, &wire.Request{Op: wire.OpForceRelease, Owner: "w"}))
	if repeats {
		b.do(rememberMillis - 1000)
	}
	if res := b.one(bareAsk(later(waits), 7, req)); res.Status != wire.StatusLost {
		t.Errorf("the repeat of a grant that is lost is answered %+v", res)
	}
}

// TestEndedWaits: a wait that was ended is answered the same when it is asked again; one that
// left with its connection waits anew.
func TestEndedWaits(t *testing.T) {
	req := waiting(write("w", "h:/a/x", time.Hour))
	req.QueueTTLMillis = 5000
	cancel := func(s *wire.Session, given bool, grace uint64) *bareCall {
		return bareAsk(s, 0, &wire.Request{Op: wire.OpCancelWait, Target: 7, Explicit: given, GraceMillis: grace})
	}
	for name, c := range map[string]struct {
		end  func(b *bare, s *wire.Session)
		code wire.Code // OK: it is queued anew
	}{
		"killed": {func(b *bare, _ *wire.Session) {
			b.do(1, bareAsk(bareSession(3), 1, &wire.Request{Op: wire.OpForceRelease, Owner: "w"}))
		}, wire.Aborted},
		"cancelled":        {func(b *bare, s *wire.Session) { b.do(1, cancel(s, true, 0)) }, wire.Cancelled},
		"its time is over": {func(b *bare, _ *wire.Session) { b.do(6000) }, wire.DeadlineExceeded},
		"left":             {func(b *bare, s *wire.Session) { b.do(1, cancel(s, false, 0)) }, wire.OK},
		"left and in grace": {func(b *bare, s *wire.Session) {
			b.do(1, cancel(s, false, 1000))
			b.do(3000)
		}, wire.OK},
		"killed in its grace": {func(b *bare, s *wire.Session) {
			b.do(1, cancel(s, false, 1000))
			b.do(1, bareAsk(bareSession(3), 1, &wire.Request{Op: wire.OpForceRelease, Owner: "w"}))
		}, wire.Aborted},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBare(t, rows.FirstLog, DefaultLimits())
			s := bareSession(2)
			b.one(bareAsk(bareSession(1), 1, write("h", "h:/a/x", time.Hour)))
			a := bareAsk(s, 7, req)
			if res := b.one(a); res.Status != wire.StatusQueued {
				t.Fatalf("%+v", res)
			}
			c.end(b, s)
			if len(a.res) != 1 || a.res[0].Code == wire.OK {
				t.Fatalf("the wait is answered %+v", a.res)
			}
			for range 2 {
				b.reload()
				s = later(s)
				res := b.one(bareAsk(s, 7, req))
				if res.Code != c.code || c.code == wire.OK && res.Status != wire.StatusQueued {
					t.Errorf("the repeat is answered %+v", res)
				}
			}
		})
	}
}

// TestPolledGrantLost: an acquire that was QUEUED, granted in the background and lost is
// answered LOST however often it is repeated, by its id as by its key.
func TestPolledGrantLost(t *testing.T) {
	for _, key := range []string{"", "k"} {
		t.Run("key "+key, func(t *testing.T) {
			b := newBare(t, rows.FirstLog, DefaultLimits())
			holder, c := bareSession(1), bareSession(2)
			ask := write("o", "h:/a/x", time.Hour)
			ask.Key = key
			b.one(bareAsk(holder, 1, write("holder", "h:/a/x", time.Hour)))
			b.one(bareAsk(c, 1, ask))
			b.one(bareAsk(holder, 2, release("holder", "h:/a/x")))
			if owner := b.m.View(0).Inspect("h:/a", "h:/a/x").Owner; owner != "o" {
				t.Fatalf("it is held by %q, want it granted", owner)
			}
			b.one(bareAsk(holder, 3, &wire.Request{Op: wire.OpForceRelease, Owner: "o"}))
			for range 3 {
				c = later(c)
				if res := b.one(bareAsk(c, 1, ask)); res.Code != wire.OK || res.Status != wire.StatusLost {
					t.Errorf("the repeat is answered %+v, want LOST", res)
				}
			}
		})
	}
}

// TestFullOfSessions: a log that remembers as many sessions as it may refuses further ones,
// and forgets none before its time.
func TestFullOfSessions(t *testing.T) {
	l := DefaultLimits()
	l.MaxSessions = 100
	b := newBare(t, rows.SystemLog, l)
	incr := func(n int, id uint64) *bareCall {
		return bareAsk(bareSession(n), id, &wire.Request{Op: wire.OpIncrToken})
	}
	if res := b.one(incr(0, 1)); res.Token != 1 {
		t.Fatalf("%+v", res)
	}
	for n := 1; n < 500; n++ {
		res := b.one(incr(n, 1))
		if fits := n < 100; fits && res.Token != int64(n+1) || !fits && res.Code != wire.ResourceExhausted {
			t.Fatalf("session %d is answered %+v", n, res)
		}
	}
	b.reload()
	for n := range 100 {
		if res := b.one(incr(n, 1)); res.Token != int64(n+1) {
			t.Fatalf("the repeat of session %d is answered %+v", n, res)
		}
	}
	b.do(rememberMillis)
	if res := b.one(incr(500, 1)); res.Token != 101 {
		t.Errorf("when all others were silent for long a new session is answered %+v", res)
	}
}

// TestSessionsOutliveARestart plays the same entries to a machine, and to one that now and
// then goes on from its disk, or from a snapshot, as a replica does that is started again: both
// answer and mean the same throughout.
func TestSessionsOutliveARestart(t *testing.T) {
	for seed := range uint64(30) {
		l := DefaultLimits()
		l.MaxSessions, l.MaxWindow, l.RememberMillis = 6, 5, 4000
		shard := uint64(rows.FirstLog)
		if seed%5 == 4 {
			shard = rows.SystemLog
		}
		steady, restarted := newBare(t, shard, l), newBare(t, shard, l)
		g := newGuests(seed, shard == rows.SystemLog)
		for step := range 400 {
			after, asks := g.draw()
			var answers [2]string
			for i, b := range []*bare{steady, restarted} {
				mine := make([]*bareCall, len(asks))
				for j, a := range asks {
					mine[j] = bareAsk(a.Session, a.ID, a.Req)
					mine[j].Settled, mine[j].tried = a.Settled, a.tried
				}
				b.do(after, mine...)
				for _, a := range mine {
					answers[i] += fmt.Sprintf("%v %d of %.12s/%d: %+v %+v\n", a.Op, a.ID, a.Session.ID[8:],
						a.Session.Epoch, a.res, a.queued)
				}
			}
			if answers[0] != answers[1] {
				t.Fatalf("seed %d, step %d: answered\n%sand by the one that was restarted\n%s", seed, step,
					answers[0], answers[1])
			}
			if a, c := steady.m.Digest(), restarted.m.Digest(); a != c {
				t.Fatalf("seed %d, step %d: the digests are %+v and %+v, after\n%s", seed, step, a, c, answers[0])
			}
			switch g.rand.IntN(12) {
			case 0:
				restarted.reload()
			case 1:
				f := restarted.m.Freeze(true)
				restarted.m.whole(f.owed[0])
				f.Close()
			case 2:
				restarted.m.Freeze(true).Close()
			}
		}
	}
}

// guests are clients that ask, lose their connections, ask again, and settle.
type guests struct {
	rand   *rand.Rand
	system bool
	all    []*guest
}

type guest struct {
	session *wire.Session
	owner   string
	asked   []*bareCall
	next    uint64
	settled uint64
}

func newGuests(seed uint64, system bool) *guests {
	g := &guests{rand: rand.New(rand.NewPCG(seed, 7)), system: system}
	for i := range 8 {
		g.all = append(g.all, &guest{session: bareSession(i), owner: fmt.Sprintf("o%d", i%5), next: 1})
	}
	return g
}

// draw is what they ask in one entry, and how long after the last.
func (g *guests) draw() (after int64, asks []*bareCall) {
	for range g.rand.IntN(4) {
		c := g.all[g.rand.IntN(len(g.all))]
		switch g.rand.IntN(10) {
		case 0: // its connection breaks, and it asks again
			c.session = later(c.session)
			for _, a := range c.asked {
				if g.rand.IntN(3) > 0 {
					again := *a
					again.Session, again.Settled = c.session, 0
					asks = append(asks, &again)
				}
			}
		case 1: // a node does not know what became of it
			if n := len(c.asked); n > 0 {
				again := *c.asked[g.rand.IntN(n)]
				again.tried = true
				asks = append(asks, &again)
			}
		case 2: // it goes on at what it asked first
			c.settled, c.asked = c.next, nil
		default:
			a := bareAsk(c.session, c.next, g.request(c))
			if g.rand.IntN(3) == 0 {
				a.Settled = c.settled
			}
			c.next += 1 + g.rand.Uint64N(3)
			c.asked = append(c.asked, a)
			asks = append(asks, a)
		}
	}
	if g.rand.IntN(4) == 0 {
		return g.rand.Int64N(1900) + 1, asks
	}
	return 1, asks
}

func (g *guests) request(c *guest) *wire.Request {
	path := fmt.Sprintf("h:/a/%d", g.rand.IntN(3))
	if g.system {
		return &wire.Request{Op: wire.OpIncrToken}
	}
	switch g.rand.IntN(8) {
	case 0:
		return release(c.owner, path)
	case 1:
		return &wire.Request{Op: wire.OpForceRelease, Owner: fmt.Sprintf("o%d", g.rand.IntN(5))}
	case 2:
		return &wire.Request{Op: wire.OpRenew, Owner: c.owner, TTLMillis: 3000}
	case 3:
		return &wire.Request{Op: wire.OpCancelWait, Target: c.next - min(c.next, 1+g.rand.Uint64N(4)),
			Explicit: g.rand.IntN(2) == 0, GraceMillis: g.rand.Uint64N(2) * 700}
	case 4, 5:
		req := waiting(write(c.owner, path, 5*time.Second))
		req.QueueTTLMillis = 1000 * (1 + g.rand.Uint64N(12))
		return req
	}
	return write(c.owner, path, time.Second)
}

// TestAnotherUnderTheIDOfAWait: what comes under the id of a wait on the session's next
// connection, and is not what waits there, is refused: what the wait is granted is no answer to
// it. The request itself, asked again, has its place.
func TestAnotherUnderTheIDOfAWait(t *testing.T) {
	ask := func() *wire.Request { return waiting(write("w", "h:/a/x", time.Hour)) }
	for name, change := range map[string]func(*wire.Request){
		"another path":    func(req *wire.Request) { req.Locks[0].Path = "h:/a/other" },
		"another mode":    func(req *wire.Request) { req.Locks[0].Mode = wire.ModeRead },
		"another owner":   func(req *wire.Request) { req.Owner = "v" },
		"more to release": func(req *wire.Request) { req.Releases = []wire.ReleaseRequest{{Path: "h:/a/y"}} },
		"does not wait":   func(req *wire.Request) { req.Flags = 0 },
		"a release":       func(req *wire.Request) { *req = *release("holder", "h:/a/x") },
		"a renewal": func(req *wire.Request) {
			*req = wire.Request{Op: wire.OpRenew, Owner: "holder",
				TTLMillis: 1}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBare(t, rows.FirstLog, DefaultLimits())
			holder, s := bareSession(1), bareSession(2)
			b.one(bareAsk(holder, 1, write("holder", "h:/a/x", time.Hour)))
			b.one(bareAsk(s, 7, ask()))
			b.reload()
			other := ask()
			change(other)
			if res := b.one(bareAsk(later(s), 7, other)); res.Code != wire.InvalidArgument {
				t.Errorf("it is answered %+v", res)
			}
			again := bareAsk(later(s), 7, ask())
			if res := b.one(again); res.Code != wire.OK || res.Status != wire.StatusQueued || res.Position != 1 {
				t.Errorf("the request that waits is answered %+v", res)
			}
			b.one(bareAsk(holder, 2, release("holder", "h:/a/x")))
			if len(again.res) != 1 || again.res[0].Code != wire.OK || again.res[0].Status != wire.StatusOK {
				t.Errorf("it is answered %+v when it is granted", again.res)
			}
		})
	}
}
