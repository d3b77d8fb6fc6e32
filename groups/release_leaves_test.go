package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestReleaseGivesAwayALaterLock: a session pipelines an acquire of x (1) and its release (2), and both are refused
// with code 14, as their group is full. Then it takes x (3), is answered OK, and has it from then on. 1 and 2 are asked
// again, with their old ids and in their old order, as PROTOCOL.md section 3 allows: the release, 2, came before 3 in
// the session's order, so 3's lock must stay. It is given away when 1 is answered with a token other than 3's, though
// 3's lock was never over.
func TestReleaseGivesAwayALaterLock(t *testing.T) {
	t.Parallel()
	const x, y = "h:/a/x", "h:/a/y"
	for name, first := range map[string]func(r *rig) *wire.Request{
		"as ever": func(*rig) *wire.Request { return write("o", x, time.Hour) },
		"with a token of its own": func(*rig) *wire.Request {
			req := write("o", x, time.Hour)
			req.Token = 1000
			return req
		},
		"that says it holds another path": func(*rig) *wire.Request {
			req := write("o", x, time.Hour)
			req.Locks = append(req.Locks, wire.LockRequest{Path: y, State: wire.StateHeld})
			return req
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fewGroups)
			c, other := r.session(), r.session()
			c.must(write("o", y, time.Hour))
			one, two, three := r.next.Add(1), r.next.Add(1), r.next.Add(1)
			fullOf(t, r, "h:/a", func() {
				for _, o := range []*outcome{c.start(one, first(r)), c.start(two, release("o", x))} {
					if res := o.get(t, "what is refused"); res.Code != wire.Unavailable {
						t.Fatalf("%+v", res)
					}
				}
			})
			took := c.start(three, write("o", x, time.Hour)).get(t, "the third")
			if took.Code != wire.OK || took.Status != wire.StatusOK {
				t.Fatalf("%+v", took)
			}
			again := askAgain(c, one, first(r)).get(t, "the first, asked again")
			let := askAgain(c, two, release("o", x)).get(t, "the release, asked again")
			if owner := other.inspect(x).Owner; owner != "o" {
				t.Errorf("3 took x with token %d and was not given back since; 1 is answered %v %v token %d, 2 %v, "+
					"and x is held by %q",
					took.Token, again.Code, again.Status, again.Token, let.Code, owner)
			}
			if res := other.ask(write("p", x, time.Hour)); res.Code == wire.OK && res.Status == wire.StatusOK {
				t.Errorf("another owner takes x with token %d: two believe that they have it", res.Token)
			}
		})
	}
}

// TestReleaseGivesAwayARepeat: the place of an answer among those that are kept is that of the first try, not that of
// the one which was carried out. 3 is answered CONFLICT, which is lost with the connection. On the next one 1, which
// had been refused with code 14, is carried out, and its time is over; then 3 is asked again, and takes x. 2, the
// release between them, is carried out last and must leave what 3 took.
func TestReleaseGivesAwayARepeat(t *testing.T) {
	t.Parallel()
	const x = "h:/a/x"
	r := newRig(t, fewGroups)
	c, other := r.session(), r.session()
	other.must(write("p", x, time.Hour))
	one, two, three := r.next.Add(1), r.next.Add(1), r.next.Add(1)
	fullOf(t, r, "h:/a", func() {
		for _, o := range []*outcome{c.start(one, write("o", x, time.Second)), c.start(two, release("o", x))} {
			if res := o.get(t, "what is refused"); res.Code != wire.Unavailable {
				t.Fatalf("%+v", res)
			}
		}
	})
	third := write("o", x, time.Hour)
	third.Flags |= wire.FlagNoQueue
	if res := c.start(three, third).get(t, "the third"); res.Code != wire.OK || res.Status != wire.StatusConflict {
		t.Fatalf("%+v", res)
	}
	other.must(release("p", x))
	again := r.session() // the client did not hear of that
	again.session = &wire.Session{ID: c.session.ID, Epoch: 2, Window: 256}
	if res := again.start(one, write("o", x, time.Second)).get(t, "the first, asked again"); res.Code != wire.OK ||
		res.Status != wire.StatusOK {
		t.Fatalf("%+v", res)
	}
	fullOf(t, r, "h:/a", func() {
		for _, o := range []*outcome{again.start(two, release("o", x)), again.start(three, third)} {
			if res := o.get(t, "what is refused"); res.Code != wire.Unavailable {
				t.Fatalf("%+v", res)
			}
		}
	})
	eventually(t, "the time of the first is over", func() bool { return other.inspect(x).Owner == "" })
	took := askAgain(again, three, third).get(t, "the third, asked again")
	if took.Code != wire.OK || took.Status != wire.StatusOK {
		t.Fatalf("%+v", took)
	}
	let := askAgain(again, two, release("o", x)).get(t, "the release, asked again")
	if owner := other.inspect(x).Owner; owner != "o" {
		t.Errorf("3 took x with token %d; the release before it is answered %v, and x is held by %q", took.Token,
			let.Code, owner)
	}
}

// TestReleaseGivesAwayWhatASecondTook: an acquire of x (1), its release (2), and an acquire (3) are refused with code
// 14. 4 takes x, and that lock's time is over. 1 is asked again, then 3, which find x free and take it; then the
// release between them. What 3 took comes after 2 in the order of ids, and stays.
func TestReleaseGivesAwayWhatASecondTook(t *testing.T) {
	t.Parallel()
	const x = "h:/a/x"
	r := newRig(t, fewGroups)
	c, other := r.session(), r.session()
	one, two, three, four := r.next.Add(1), r.next.Add(1), r.next.Add(1), r.next.Add(1)
	fullOf(t, r, "h:/a", func() {
		for _, o := range []*outcome{c.start(one, write("o", x, time.Hour)), c.start(two, release("o", x)),
			c.start(three, write("o", x, time.Hour))} {
			if res := o.get(t, "what is refused"); res.Code != wire.Unavailable {
				t.Fatalf("%+v", res)
			}
		}
	})
	if res := c.start(four, write("o", x, time.Second)).get(t, "the fourth"); res.Code != wire.OK ||
		res.Status != wire.StatusOK {
		t.Fatalf("%+v", res)
	}
	eventually(t, "its time is over", func() bool { return other.inspect(x).Owner == "" })
	for _, id := range []uint64{one, three} {
		if res := askAgain(c, id, write("o", x, time.Hour)).get(t, "an acquire, asked again"); res.Code != wire.OK ||
			res.Status != wire.StatusOK {
			t.Fatalf("%+v", res)
		}
	}
	let := askAgain(c, two, release("o", x)).get(t, "the release, asked again")
	if owner := other.inspect(x).Owner; owner != "o" {
		t.Errorf("3 took x after the release before it, which is answered %v; x is held by %q", let.Code, owner)
	}
}
