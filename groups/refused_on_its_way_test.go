package groups

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
	"github.com/pathlockd/pathlockd/wire"
)

// TestRefusedOnItsWay: who does not want to wait asks a node that forwards, and the node that led the log leads it no
// more. What is forwarded comes back, refused, and goes there again. When that has lasted for as long as an election
// takes the caller is told that nothing was done, and not that nobody knows, as soon as its request is back. What does
// not come back is not waited for without end, and of what may have been done nobody knows.
func TestRefusedOnItsWay(t *testing.T) {
	t.Parallel()
	const term = 7
	for _, c := range []struct {
		name   string
		since  time.Duration // how long it has been on its way
		none   time.Duration // how long there has been no leader
		tried  bool
		waits  bool   // it may wait for a leader
		comes  bool   // it comes back
		held   bool   // another one does not come back
		leader string // who is said to lead now
		want   wire.Code
	}{
		{name: "on its way", none: time.Hour, want: noAnswer},
		{name: "back", none: time.Hour, comes: true, want: wire.Unavailable},
		{name: "back before another", none: time.Hour, comes: true, held: true, want: wire.Unavailable},
		{name: "back in time for an election", none: time.Second, comes: true, want: noAnswer},
		{name: "back, with a leader", none: time.Hour, comes: true, leader: "n-9", want: noAnswer},
		{name: "back, and may have been done", none: time.Hour, tried: true, comes: true, want: wire.DeadlineExceeded},
		{name: "back, and may wait", none: time.Hour, waits: true, comes: true, want: noAnswer},
		{name: "for too long", since: 2 * askWithin, none: time.Hour, want: wire.DeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBare(t, rows.FirstLog, replica.DefaultLimits())
			b.n.logs = map[uint64]*shardLog{rows.FirstLog: b.l}
			l, conn := b.l, new(otherConn)
			now := l.clock.Mono()
			b.n.inflight = make([]atomic.Int32, 2)
			b.n.inflight[0].Store(2)
			b.n.leaders.lose(rows.FirstLog, lostLeader{host: "n-8", since: now - c.none})
			asked := func(session int, hasty bool) (*bareCall, *part) {
				a := bareAsk(bareSession(session), 1, noQueue("h:/x"))
				return a, &part{
					Command: replica.Command{Op: a.Op, Session: a.Session, ID: a.ID}, call: &a.Call, log: l,
					since: now, hasty: hasty, tried: c.tried, counted: true,
				}
			}
			a, p := asked(1, !c.waits)
			other, q := asked(2, false)
			l.mu.forwarded = forwardedParts{
				conn: conn, term: term, parts: map[uint64]*part{1: p, 2: q}, since: now - c.since,
			}

			l.looked = now - time.Hour // so that it is time to look
			l.expire()
			if c.comes {
				if !c.held {
					l.notThere(conn, 2, term, c.leader)
				}
				l.notThere(conn, 1, term, c.leader)
				if back := l.hastyBack.Load(); back == c.waits || len(l.wake) != 1 {
					t.Errorf("that somebody is back who does not want to wait: %v; run is woken: %d", back, len(l.wake))
				}
				looked := l.looked
				l.expire() // as run does, which that has woken
				if l.hastyBack.Load() || l.looked != looked {
					t.Error("it looks again at once, or puts off its next look at the others")
				}
			}
			got := wire.Code(noAnswer)
			if len(a.res) > 0 {
				got = a.res[0].Code
			}
			if got != c.want {
				t.Errorf("it is answered %v, want %v", a.res, c.want)
			}
			if under := b.n.inflight[0].Load(); (under == 2) != (got == noAnswer) {
				t.Errorf("%d are under way", under)
			}
			if left := len(l.mu.forwarded.parts) + len(l.mu.forwarded.back) +
				len(l.mu.queue); (left == 2) != (got == noAnswer) || left == 0 || len(other.res) > 0 {
				t.Errorf("%d are left, and who may wait is answered %v", left, other.res)
			}
		})
	}
}

// TestLaneBegins: a lane's time begins with its first frame, and not anew with each, and the next lane has its own.
func TestLaneBegins(t *testing.T) {
	b := newBare(t, rows.FirstLog, replica.DefaultLimits())
	b.n.logs = map[uint64]*shardLog{rows.FirstLog: b.l}
	l, conn := b.l, swallows{}
	send := func(id uint64) time.Duration {
		a := bareAsk(bareSession(int(id)), id, noQueue("h:/x"))
		l.push(&part{Command: replica.Command{Op: a.Op, Session: a.Session, ID: a.ID}, call: &a.Call,
			since: l.clock.Mono()})
		time.Sleep(time.Millisecond)
		l.mu.forwarded.retryAt = 0
		l.sendForwarded(conn, 7)
		return l.mu.forwarded.since
	}
	before := l.clock.Mono()
	first := send(1)
	if second := send(2); first <= before || second != first || len(l.mu.forwarded.parts) != 2 {
		t.Fatalf("it began at %v and then at %v, with %d parts", first, second, len(l.mu.forwarded.parts))
	}
	l.notThere(conn, 1, 7, "")
	l.notThere(conn, 2, 7, "")
	if next := send(3); next <= first || len(l.mu.forwarded.parts) != 3 {
		t.Errorf("the next lane began at %v, the first at %v; %d parts", next, first, len(l.mu.forwarded.parts))
	}
}

// TestClosedWithTheRefused: what came back from a node that leads no more, while another request keeps the lane open,
// is answered when the node stops.
func TestClosedWithTheRefused(t *testing.T) {
	b := newBare(t, rows.FirstLog, replica.DefaultLimits())
	b.n.logs = map[uint64]*shardLog{rows.FirstLog: b.l}
	l, conn := b.l, new(otherConn)
	l.mu.forwarded = forwardedParts{conn: conn, term: 7, parts: make(map[uint64]*part)}
	var calls []*bareCall
	for id := uint64(1); id <= 3; id++ {
		a := bareAsk(bareSession(int(id)), id, write("o", "h:/x", time.Hour))
		calls = append(calls, a)
		l.mu.forwarded.parts[id] = &part{
			Command: replica.Command{Op: a.Op, Session: a.Session, ID: a.ID}, call: &a.Call, log: l, tried: id == 2,
		}
	}
	l.notThere(conn, 1, 7, "")
	l.notThere(conn, 2, 7, "")
	l.close()
	for i, want := range []wire.Code{wire.Unavailable, wire.DeadlineExceeded, wire.DeadlineExceeded} {
		if res := calls[i].res; len(res) != 1 || res[0].Code != want {
			t.Errorf("call %d is answered %v, want %v", i+1, res, want)
		}
	}
}

// noAnswer stands for a call that is not answered yet.
const noAnswer = 0xff
