package crash

import (
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// s is seconds of a run.
func s(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// Ops of one path, a:/x/p, that are asked at one time and answered a tenth of a
// second later.
func op(kind Kind, owner string, at float64) Op {
	return Op{
		Kind: kind, Owner: owner, Namespace: "a:/x", Paths: []string{"a:/x/p"}, TTL: time.Hour, Ask: 1,
		Sent: s(at), Ended: s(at + 0.1), Answered: true,
	}
}

func got(owner string, at float64, token int64) Op {
	o := op(Acquire, owner, at)
	o.Token = token
	return o
}

func with(o Op, change func(*Op)) Op {
	change(&o)
	return o
}

func unanswered(o *Op) { o.Answered, o.Token, o.Status = false, 0, 0 }
func queued(o *Op)     { o.Status = wire.StatusQueued }
func lost(o *Op)       { o.Status = wire.StatusLost }
func conflict(o *Op)   { o.Status, o.NoQueue = wire.StatusConflict, true }

func until(t float64) func(*Op) { return func(o *Op) { o.Ended = s(t) } }

func ttl(d float64) func(*Op) { return func(o *Op) { o.TTL = s(d) } }
func asked(t int64) func(*Op) { return func(o *Op) { o.Asked = t } }
func blocked(by string) func(*Op) {
	return func(o *Op) { o.Status, o.Blocker = wire.StatusQueued, by }
}

// open makes an acquire one that learned of its place after a tenth of a second, and
// was granted at a time; 0: is not yet.
func open(until float64) func(*Op) {
	return func(o *Op) {
		o.Open, o.Queued, o.QueuedToken, o.Ended = true, o.Sent+s(0.1), o.Token, s(until)
		if until == 0 {
			o.Ended, o.Answered = forever, false
		}
	}
}

// look is a look at a:/x/p.
func look(at float64, holder string, token int64, waiters ...string) Look {
	l := Look{From: s(at), To: s(at + 0.01), Path: "a:/x/p", Namespace: "a:/x", Fence: token, Waiters: waiters}
	if holder != "" {
		l.Holders = []Holder{{Owner: holder, Token: token}}
	}
	return l
}

// TestCheck doctors histories: each says what the checker must find in it, nothing
// if it is as it should be.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name  string
		ops   []Op
		looks []Look
		away  []Outage
		want  string // part of a violation
	}{
		// Locks.
		{name: "a held lock", ops: []Op{got("A", 1, 5)}, looks: []Look{look(2, "A", 5)}},
		{name: "a held lock that vanished", ops: []Op{got("A", 1, 5)}, looks: []Look{look(2, "", 5)},
			want: "does not hold a:/x/p any more"},
		{name: "a held lock with another token", ops: []Op{got("A", 1, 5)}, looks: []Look{look(2, "A", 6)},
			want: "holds a:/x/p with token 6 and was told 5"},
		{name: "a released lock", ops: []Op{got("A", 1, 5), op(Release, "A", 2)}, looks: []Look{look(3, "", 5)}},
		{name: "a released lock that is back", ops: []Op{got("A", 1, 5), op(Release, "A", 2)},
			looks: []Look{look(3, "A", 5)}, want: "holds a:/x/p (it let go"},
		{name: "an unacknowledged release, done", ops: []Op{got("A", 1, 5), with(op(Release, "A", 2), unanswered)},
			looks: []Look{look(3, "", 5)}},
		{name: "an unacknowledged release, not done", ops: []Op{got("A", 1, 5), with(op(Release, "A", 2), unanswered)},
			looks: []Look{look(3, "A", 5)}},
		{name: "an unacknowledged acquire, done", ops: []Op{with(got("A", 1, 5), unanswered)},
			looks: []Look{look(3, "A", 5)}},
		{name: "an unacknowledged acquire, not done", ops: []Op{with(got("A", 1, 5), unanswered)},
			looks: []Look{look(3, "", 0)}},
		{name: "seen gone, and back", ops: []Op{with(got("A", 1, 5), unanswered)},
			looks: []Look{look(3, "", 0), look(4, "A", 5)}, want: "holds a:/x/p (it"},
		{name: "who never asked", ops: []Op{got("A", 1, 5)}, looks: []Look{look(2, "B", 5)},
			want: `held by "B", who never asked`},
		{name: "a look while something goes on says nothing", ops: []Op{got("A", 1, 5), op(Release, "A", 2)},
			looks: []Look{look(2.05, "", 5)}},
		{name: "a policy clears", ops: []Op{got("A", 1, 5), op(SetPolicy, "A", 2)}, looks: []Look{look(3, "", 5)}},
		{name: "a policy did not clear", ops: []Op{got("A", 1, 5), op(SetPolicy, "A", 2)},
			looks: []Look{look(3, "A", 5)}, want: "holds a:/x/p (it"},
		{name: "a conflict with oneself", ops: []Op{got("A", 1, 5), with(op(Acquire, "A", 2), conflict)},
			want: "is told CONFLICT"},
		{name: "a wait for oneself", ops: []Op{got("A", 1, 5), with(op(Acquire, "A", 2), queued)},
			want: "has to wait for what it holds"},
		{name: "an assertion that fails", ops: []Op{got("A", 1, 5), with(with(op(Assert, "A", 2), asked(5)),
			func(o *Op) { o.Status = wire.AssertFail })}, want: "is said not to hold"},
		{name: "an assertion that must fail", ops: []Op{got("A", 1, 5), op(Release, "A", 2),
			with(op(Assert, "A", 3), asked(5))}, want: "is said to hold"},
		{name: "two at once", ops: []Op{got("A", 1, 5), got("B", 2, 6)}, want: "by A and B at once"},
		{name: "one after the other", ops: []Op{got("A", 1, 5), op(Release, "A", 2), got("B", 3, 6)}},
		{name: "a blocker that let go", ops: []Op{got("A", 1, 5), op(Release, "A", 2),
			with(got("B", 3, 6), blocked("A"))}, want: "A holds a:/x/p (it"},
		{name: "three on two permits", ops: []Op{
			with(op(Acquire, "A", 1), two), with(op(Acquire, "B", 2), two), with(op(Acquire, "C", 3), two)},
			want: "3 holders and 2 permits"},

		// Tokens.
		{name: "a token again", ops: []Op{got("A", 1, 5), op(Release, "A", 2), got("B", 3, 5)}, want: "token 5"},
		{name: "a token again, elsewhere", ops: []Op{got("A", 1, 5), with(got("B", 1, 5), elsewhere)},
			want: "token 5 of a:/x, as"},
		{name: "a token that goes back", ops: []Op{got("A", 1, 5), op(Release, "A", 2),
			with(got("B", 3, 4), elsewhere)}, want: "is told token 4"},
		{name: "below what a caller brought", ops: []Op{with(got("A", 1, 50), asked(50)),
			with(got("B", 3, 6), elsewhere)}, want: "is told token 6"},
		{name: "below a fence", ops: []Op{got("A", 3, 5)}, looks: []Look{look(1, "", 7)}, want: "is told token 5"},
		{name: "another than brought", ops: []Op{with(got("A", 1, 51), asked(50))}, want: "brought token 50"},
		{name: "another while it is held", ops: []Op{got("A", 1, 5), got("A", 2, 6)},
			want: "holds the lock with token 5 and is told 6"},
		{name: "the same while it is held", ops: []Op{got("A", 1, 5), got("A", 2, 5)}},
		{name: "a fence that goes back", ops: []Op{got("A", 1, 5), op(Release, "A", 2)}, looks: []Look{look(3, "", 4)},
			want: "the fence of a:/x/p is 4"},
		{name: "a promise that is broken", ops: []Op{got("B", 0.5, 4), with(got("A", 1, 6), queued),
			op(Release, "B", 2), got("A", 3, 5)}, want: "was promised token 6"},

		// Leases.
		{name: "a lease that is over", ops: []Op{with(got("A", 1, 5), ttl(1))}, looks: []Look{look(2.5, "", 5)}},
		{name: "a lease that is over and seen a tick later", ops: []Op{with(got("A", 1, 5), ttl(1))},
			looks: []Look{look(3, "A", 5)}},
		{name: "a lease that ended early", ops: []Op{with(got("A", 1, 5), ttl(1))}, looks: []Look{look(1.9, "", 5)},
			want: "does not hold"},
		{name: "a lease that does not end", ops: []Op{with(got("A", 1, 5), ttl(1))}, looks: []Look{look(6, "A", 5)},
			want: "had until"},
		{name: "an outage adds to a lease", ops: []Op{with(got("A", 1, 5), ttl(1))}, looks: []Look{look(6, "A", 5)},
			away: []Outage{{s(1.5), s(4)}}},
		{name: "an outage does not add for ever", ops: []Op{with(got("A", 1, 5), ttl(1))},
			looks: []Look{look(9, "A", 5)}, away: []Outage{{s(1.5), s(4)}}, want: "had until"},
		{name: "an outage before adds nothing", ops: []Op{with(got("A", 1, 5), ttl(1))}, looks: []Look{look(6, "A", 5)},
			away: []Outage{{s(0.1), s(0.9)}}, want: "had until"},
		{name: "an outage after adds nothing", ops: []Op{with(got("A", 1, 5), ttl(1))}, looks: []Look{look(9, "A", 5)},
			away: []Outage{{s(6), s(8)}}, want: "had until"},
		{name: "over, seen gone, and resurrected", ops: []Op{with(got("A", 1, 5), ttl(1))},
			looks: []Look{look(2.5, "", 5), look(3, "A", 5)}, want: "holds a:/x/p (it"},
		{name: "a renewal", ops: []Op{with(got("A", 1, 5), ttl(1)), with(op(Renew, "A", 1.5), ttl(9))},
			looks: []Look{look(9, "A", 5)}},
		{name: "a renewal that is forgotten",
			ops: []Op{with(got("A", 1, 5), ttl(1)), with(op(Renew, "A", 1.5), ttl(9))}, looks: []Look{look(9, "", 5)},
			want: "does not hold"},
		{name: "a renewal of what is over", ops: []Op{with(got("A", 1, 5), ttl(1)), op(Renew, "A", 8)},
			want: "renews a lease that is over"},
		{name: "a renewal that lost what is there",
			ops:  []Op{got("A", 1, 5), with(op(Renew, "A", 2), func(o *Op) { o.Status = wire.RenewLost })},
			want: "has lost a lease"},
		{name: "a repeat that lost what is there", ops: []Op{with(got("A", 1, 5), lost)}, want: "is told LOST"},

		// Waiters.
		{name: "waiters in order", ops: []Op{got("H", 0, 1), with(got("A", 1, 2), queued),
			with(got("B", 2, 3), queued)}, looks: []Look{look(3, "H", 1, "A", "B")}},
		{name: "waiters out of order", ops: []Op{got("H", 0, 1), with(got("A", 1, 2), queued),
			with(got("B", 2, 3), queued)}, looks: []Look{look(3, "H", 1, "B", "A")},
			want: "B waits for a:/x/p before A"},
		{name: "waiters who came at once, in any order", ops: []Op{got("H", 0, 1), with(got("A", 1, 2), queued),
			with(got("B", 1.05, 3), queued)}, looks: []Look{look(3, "H", 1, "B", "A")}},
		{name: "but always the same one", ops: []Op{got("H", 0, 1), with(got("A", 1, 2), queued),
			with(got("B", 1.05, 3), queued)}, looks: []Look{look(3, "H", 1, "B", "A"), look(4, "H", 1, "A", "B")},
			want: "stood before it"},
		{name: "a waiter that is lost", ops: []Op{got("H", 0, 1), with(got("A", 1, 2), queued)},
			looks: []Look{look(3, "H", 1)}, want: "is not in the queue any more"},
		{name: "a waiter nobody knows", ops: []Op{got("H", 0, 1)}, looks: []Look{look(3, "H", 1, "A")},
			want: "never asked"},
		{name: "a waiter that has what it wants", ops: []Op{got("A", 1, 2)}, looks: []Look{look(3, "A", 2, "A")},
			want: "does not want it"},
		{name: "a waiter that was granted", ops: []Op{got("H", 0, 1), with(got("A", 1, 2), queued),
			op(Release, "H", 2)}, looks: []Look{look(3, "A", 2)}},
		{name: "an open call keeps its place", ops: []Op{got("H", 0, 1), with(got("A", 1, 2), open(0)),
			with(got("B", 2, 3), queued)}, looks: []Look{look(3, "H", 1, "A", "B")}},
		{name: "an open call that is forgotten", ops: []Op{got("H", 0, 1), with(got("A", 1, 2), open(0))},
			looks: []Look{look(3, "H", 1)}, want: "is not in the queue any more"},
		{name: "a call that was cut says nothing",
			ops:   []Op{got("H", 0, 1), with(with(got("A", 1, 2), open(0)), func(o *Op) { o.Cut = true })},
			looks: []Look{look(3, "H", 1, "A"), look(4, "H", 1), look(5, "H", 1, "A")}},
		// B was asked again over an outage; A got the lock late in that time
		{name: "a blocker that was granted in between", ops: []Op{
			got("H", 0, 1), with(got("A", 1, 2), open(0)), op(Release, "H", 7),
			with(with(got("B", 1.5, 3), blocked("A")), until(9))},
			looks: []Look{look(2, "H", 1, "A"), look(9.5, "A", 2, "B")}},
		{name: "granted in order", ops: []Op{got("H", 0, 1), with(got("A", 1, 2), queued),
			with(got("B", 2, 3), open(5)), op(Release, "H", 3), got("A", 3.2, 2), op(Release, "A", 4)}},
		{name: "granted out of order", ops: []Op{
			got("H", 0, 1), with(got("A", 1, 2), queued), with(got("B", 2, 3), open(3.5)), op(Release, "H", 3),
			op(Release, "B", 4), got("A", 5, 4)},
			want: "a:/x/p was given to B with token 3"},
		{name: "a place kept over an unanswered repeat", ops: []Op{
			got("H", 0, 1), with(got("A", 1, 2), queued), with(got("B", 2, 3), queued),
			with(with(got("A", 3, 2), queued), unanswered)}, looks: []Look{look(4, "H", 1, "A", "B")}},

		// What is no lock.
		{name: "a policy", ops: []Op{with(op(SetPolicy, "A", 1), points)}, looks: []Look{ruled(2, wire.PointRW)}},
		{name: "a policy that is forgotten", ops: []Op{with(op(SetPolicy, "A", 1), points)},
			looks: []Look{ruled(2, wire.RecursiveRW)}, want: "the policy of a:/x is recursive_rw"},
		{name: "an unacknowledged policy", ops: []Op{with(with(op(SetPolicy, "A", 1), points), unanswered)},
			looks: []Look{ruled(2, wire.RecursiveRW)}},
		{name: "a counter", ops: []Op{count1("A", 1, 1), count1("A", 2, 2)}},
		{name: "a counter that goes back", ops: []Op{count1("A", 1, 2), count1("B", 2, 1)},
			want: "is told token 1 of counter"},
		{name: "an increment that counted twice", ops: []Op{count1("A", 1, 1), count1("A", 2, 3)},
			want: "stands at 3 after 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := Check(&History{Ops: c.ops, Looks: c.looks, Outages: c.away})
			all := strings.Join(found, "\n")
			if (c.want == "") != (all == "") || !strings.Contains(all, c.want) {
				t.Errorf("found %q, want %q", found, c.want)
			}
		})
	}
}

func two(o *Op)       { o.Permits = 2 }
func elsewhere(o *Op) { o.Paths = []string{"a:/x/q"} }
func points(o *Op)    { o.Algorithm = wire.PointRW }

func ruled(at float64, a wire.Algorithm) Look {
	l := look(at, "", 0)
	l.Algorithm = a
	return l
}

func count1(owner string, at float64, n int64) Op {
	o := op(Increment, owner, at)
	o.Namespace, o.Paths, o.Token = "counter", nil, n
	return o
}
