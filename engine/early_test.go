package engine

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// crowd is a group with very many that hold one path, tied to a session's first connection, without a grace.
type crowd struct {
	t   *testing.T
	s   *State
	ids uint64
	out Output
}

func newCrowd(t *testing.T, n int, mode wire.Mode, permits uint32) *crowd {
	c := &crowd{t: t, s: New(DefaultConfig(), nil, nil)}
	if permits > 0 {
		c.do(1, 9, false, &wire.Request{Op: wire.OpSetRow, Namespace: "h:/a", Algorithm: wire.Semaphore,
			Explicit: true})
	}
	for i := range n {
		c.do(1, 1, true, c.asks(fmt.Sprintf("r%06d", i), mode, permits))
	}
	return c
}

// asks is an acquire of the path.
func (c *crowd) asks(owner string, mode wire.Mode, permits uint32) *wire.Request {
	req := takes(owner, "h:/a/x")
	req.Locks[0].Mode, req.Locks[0].Permits = mode, permits
	return req
}

func (c *crowd) do(now int64, sess byte, bound bool, req *wire.Request) wire.Result {
	c.t.Helper()
	c.ids++
	c.out.Reset()
	cmd := &Command{NS: "h:/a", Caller: Caller{Session: Session{sess}, ID: c.ids}, Epoch: 1, Bound: bound, Req: req}
	res := c.s.Apply(Clock{Now: now}, cmd, &c.out)
	if err := res.Err(); err != nil {
		c.t.Fatal(err)
	}
	return res
}

// ended is how many leases the last step ended.
func (c *crowd) ended() (n int) {
	for _, e := range c.out.Events {
		if e.Kind == wire.EventExpired {
			n++
		}
	}
	return n
}

// anew loads the group anew.
func (c *crowd) anew() {
	again := New(DefaultConfig(), nil, nil)
	err := c.s.View().Rows(0, func(row, val []byte) error { return again.Load(row, val) })
	if err == nil {
		err = again.Loaded()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.s = again
}

// TestManyReadersGo: very many read a path, and their session goes, or their time is over; somebody waits to write, and
// others ask for it. No step ends more of them than its budget and maxEarly, whichever the steps before did, and a
// replica that is loaded anew between two steps does the same. Who waits gets the path in the end.
func TestManyReadersGo(t *testing.T) {
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprint("their session goes ", gone), func(t *testing.T) {
			const n = 1000
			a, b := newCrowd(t, n, wire.ModeRead, 0), newCrowd(t, n, wire.ModeRead, 0)
			both := func(most int, step func(c *crowd)) {
				t.Helper()
				step(a)
				b.anew()
				step(b)
				if a.s.View().Digest() != b.s.View().Digest() || !reflect.DeepEqual(a.out.Events, b.out.Events) ||
					!reflect.DeepEqual(a.out.Answers, b.out.Answers) {
					t.Fatal("the replicas differ")
				}
				if a.ended() > most {
					t.Errorf("a step ends %d leases, and may end %d", a.ended(), most)
				}
			}
			wait := waitsOn("w", "h:/a/x")
			wait.QueueTTLMillis = 2 * hourMillis
			both(0, func(c *crowd) { c.do(2, 2, false, wait) })
			now := int64(3)
			if gone {
				both(departAtOnce+maxEarly, func(c *crowd) { c.do(now, 1, false, &wire.Request{Op: wire.OpDetach}) })
			} else {
				now = 1 + hourMillis
			}
			ask := a.asks("other", wire.ModeWrite, 0)
			ask.Flags = wire.FlagNoQueue
			most, steps := 0, 0
			for due, ok := a.s.NextDeadline(); ok && due <= now; due, ok = a.s.NextDeadline() {
				both(DefaultReapBudget+maxEarly, func(c *crowd) {
					c.out.Reset()
					c.s.Expire(Clock{Now: now}, &c.out)
				})
				most = max(most, a.ended())
				steps++
				both(maxEarly, func(c *crowd) { c.do(now, 3, false, ask) })
			}
			if steps < 2 || most < DefaultReapBudget {
				t.Errorf("%d steps, of %d at most", steps, most)
			}
			if res := a.s.View().Inspect("h:/a", "h:/a/x"); res.Owner != "w" {
				t.Errorf("%q holds the path in the end", res.Owner)
			}
		})
	}
}

// TestReadersThatGoCost: what is over is not looked at again with each of them that ends.
func TestReadersThatGoCost(t *testing.T) {
	const some, more = 2000, 32_000
	measure := func(n int) time.Duration {
		c := newCrowd(t, n, wire.ModeRead, 0)
		c.do(2, 2, false, waitsOn("w", "h:/a/x"))
		return spent(func() {
			c.do(3, 1, false, &wire.Request{Op: wire.OpDetach})
			for due, ok := c.s.NextDeadline(); ok && due <= 3; due, ok = c.s.NextDeadline() {
				c.s.Expire(Clock{Now: 3}, new(Output))
			}
		})
	}
	t1, t2 := min(measure(some), measure(some), measure(some)), min(measure(more), measure(more))
	t.Logf("%v with %d, %v with %d", t1, some, t2, more)
	if t2 > 4*more/some*t1 {
		t.Errorf("%v with %d, and %v with %d", t1, some, t2, more)
	}
}

// TestPermitsBesideDeparture: an acquire of a semaphore costs no more for those who hold it, while something of
// another session departs.
func TestPermitsBesideDeparture(t *testing.T) {
	const some, more, permits = 500, 20_000, 1_000_000
	measure := func(n int) (least time.Duration) {
		c := newCrowd(t, n, wire.ModeWrite, permits)
		for i := range 2 * departAtOnce {
			req := takes(fmt.Sprintf("d%02d", i), fmt.Sprintf("h:/a/p%02d", i))
			req.Locks[0].Permits = 1
			c.do(1, 2, true, req)
		}
		c.do(2, 2, false, &wire.Request{Op: wire.OpDetach})
		if c.s.departing.Empty() {
			t.Fatal("nothing departs")
		}
		least = time.Hour
		for i := range 20 {
			req := c.asks(fmt.Sprintf("n%02d", i), wire.ModeWrite, permits)
			least = min(least, spent(func() { c.do(2, 3, false, req) }))
		}
		return least
	}
	t1, t2 := measure(some), measure(more)
	t.Logf("%v with %d, %v with %d", t1, some, t2, more)
	if t2 > costlier*t1 {
		t.Errorf("%v with %d, and %v with %d", t1, some, t2, more)
	}
}

// TestOtherPermitsOfManyThatGo: who asks for a semaphore as another one has it when all that hold it are over, but more
// than one step may end, does not get it beside those that are left; a step ends maxEarly of them.
func TestOtherPermitsOfManyThatGo(t *testing.T) {
	c := newCrowd(t, departAtOnce+2*maxEarly+1, wire.ModeWrite, 1000)
	c.do(2, 1, false, &wire.Request{Op: wire.OpDetach})
	for i := range 3 {
		res := c.do(2, 3, false, c.asks("o", wire.ModeWrite, 7))
		if want := i == 2; (res.Status == wire.StatusOK) != want {
			t.Errorf("try %d: %v %v, in force %q", i, res.Status, res.Reason, res.Owner)
		}
		if i < 2 && c.ended() != maxEarly {
			t.Errorf("try %d ends %d", i, c.ended())
		}
	}
}

// TestLeaseEndsBesideDepartures: a lease runs out, while another client with very many leases goes, and came and went
// before. Who waits for it gets it with the next step.
func TestLeaseEndsBesideDepartures(t *testing.T) {
	for _, ends := range []uint64{0, 1, 4} {
		g := newGraces(t)
		for i := range 3 * DefaultReapBudget {
			c := &Command{NS: "h:/a", Caller: Caller{Session: Session{1}, ID: uint64(i) + 1}, Epoch: 1, Bound: true,
				Grace: 10_000, Req: takes(fmt.Sprintf("a%04d", i), fmt.Sprintf("h:/a/a%04d", i))}
			g.s.Apply(Clock{Now: 1}, c, new(Output))
		}
		short := takes("other", "h:/a/x")
		short.TTLMillis = 100
		g.do(2, 2, 1, -1, short)
		g.do(3, 3, 1, -1, waitsOn("o", "h:/a/x"))
		for e := range ends {
			g.detach(50+int64(e), 1, e+1)
		}
		var out Output
		g.s.ExpireSome(Clock{Now: 200}, &out, DefaultReapBudget)
		if !g.s.View().Alive("o", nil) {
			t.Errorf("%d ends of another client: it waits for them", ends)
		}
		if ends > 0 {
			if first, _, _, _ := g.s.departing.All().ByRank(1).Next(); g.s.departing.Get(first).after < "a0100" {
				t.Errorf("%d ends: the departures have to wait", ends)
			}
		}
	}
}

// TestDepartureBesideDeadlines: nor does what departs wait until very many leases that ran out have ended.
func TestDepartureBesideDeadlines(t *testing.T) {
	g := newGraces(t)
	for i := range 3 * DefaultReapBudget {
		for id, owner := range []string{"a", "b"} {
			req := takes(fmt.Sprintf("%s%04d", owner, i), fmt.Sprintf("h:/a/%s%04d", owner, i))
			if owner == "b" {
				req.TTLMillis = 100
			}
			c := &Command{NS: "h:/a", Caller: Caller{Session: Session{byte(id)}, ID: uint64(i) + 1}, Epoch: 1,
				Bound: true, Grace: 10_000, Req: req}
			g.s.Apply(Clock{Now: 1}, c, new(Output))
		}
	}
	g.detach(50, 0, 1)
	at := func() string {
		first, _, _, _ := g.s.departing.All().ByRank(1).Next()
		return g.s.departing.Get(first).after
	}
	was := at()
	g.s.ExpireSome(Clock{Now: 200}, new(Output), DefaultReapBudget)
	if at() == was {
		t.Error("the departure has to wait")
	}
}

// TestManyHoldersWhileOthersDepart: what a refused request of a full semaphore costs does not grow with its holders,
// also while leases of another session are to end.
func TestManyHoldersWhileOthersDepart(t *testing.T) {
	measure := func(n int) (least time.Duration) {
		c := newCrowd(t, n, wire.ModeWrite, uint32(n))
		for i := range 10 * departAtOnce {
			req := takes(fmt.Sprintf("d%03d", i), fmt.Sprintf("h:/a/p%03d", i))
			req.Locks[0].Permits = 1
			c.do(1, 2, true, req)
		}
		before := spent(func() {
			req := c.asks("b", wire.ModeWrite, uint32(n))
			req.Flags = wire.FlagNoQueue
			c.do(2, 3, false, req)
		})
		c.do(2, 2, false, &wire.Request{Op: wire.OpDetach})
		if c.s.departing.Empty() {
			t.Fatal("nothing departs")
		}
		least = time.Hour
		for i := range 10 {
			req := c.asks(fmt.Sprintf("n%02d", i), wire.ModeWrite, uint32(n))
			req.Flags = wire.FlagNoQueue
			least = min(least, spent(func() { c.do(2, 3, false, req) }))
		}
		t.Logf("%d: before %v, while departing %v", n, before, least)
		return least
	}
	t1, t2 := measure(2000), measure(50_000)
	if t2 > 10*t1 {
		t.Errorf("%v with 2000, and %v with 50000", t1, t2)
	}
}
