package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestSimulatedWaitsStandStill: a wait has the time that its log stood still since it was asked, again and again, and
// no more; what is no wait has none of it. (Seed 9106105 of the simulation: 25 s without a leader in half a minute, and
// the wait was answered when its time in the log was over.)
func TestSimulatedWaitsStandStill(t *testing.T) {
	t.Parallel()
	const sent, limit = 100 * time.Second, 140 * time.Second
	// looks is what the check says at an instant, when the log was led but for these times. One that has no end lasts.
	looks := func(at time.Duration, flags wire.Flags, outages ...simOutage) string {
		w := &world{shards: []uint64{1}}
		l := &simLog{w: w, shard: 1, lostAt: -1}
		w.logs = map[uint64]*simLog{1: l}
		for _, o := range outages {
			w.now = o.from
			l.lost()
			w.now++
			l.lost() // as when the node that led, and had no majority any more, ends
			if w.now = o.until; o.until >= 0 {
				l.regained()
				l.regained() // as in every tick
			}
		}
		w.now = at
		c := &simClient{w: w, conn: &simConn{node: &simNode{w: w}}}
		req := &wire.Request{Op: wire.OpAcquire, Owner: "o", Flags: flags}
		c.open = map[uint64]*simCall{1: {c: c, id: 1, req: req, conn: c.conn, sent: sent, limit: limit}}
		w.clients = []*simClient{c}
		w.check.late(w)
		return w.broken
	}
	s := func(n int) time.Duration { return time.Duration(n) * time.Second }
	due := limit + waitLateBy
	for _, c := range []struct {
		what    string
		at      time.Duration
		flags   wire.Flags
		outages []simOutage
		late    bool
	}{
		{"a wait in its time", due, wire.FlagWait, nil, false},
		{"a wait after it", due + 1, wire.FlagWait, nil, true},
		{"outages since", due + s(21), wire.FlagWait, []simOutage{{s(105), s(120)}, {s(130), s(136)}}, false},
		{"and after these", due + s(21) + 1, wire.FlagWait, []simOutage{{s(105), s(120)}, {s(130), s(136)}}, true},
		{"one that began before", due + s(5) + 1, wire.FlagWait, []simOutage{{s(80), s(105)}}, true},
		{"one that was over before", due + 1, wire.FlagWait, []simOutage{{s(80), s(100)}}, true},
		{"one that lasts", due + s(60), wire.FlagWait, []simOutage{{s(130), -1}}, false},
		{"no wait", limit + lateBy + 1, 0, []simOutage{{s(105), s(120)}}, true},
	} {
		if broken := looks(c.at, c.flags, c.outages...); (broken != "") != c.late {
			t.Errorf("%s: at %v it says %q, want late %v", c.what, c.at, broken, c.late)
		}
	}
}
