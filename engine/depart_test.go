package engine

import (
	"fmt"
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// departed is a state in which one session has very many leases tied to its first connection.
func departed(t testing.TB, leases int) (s *State, session Session, do func(now int64, cmd *Command) wire.Result) {
	s, session = New(DefaultConfig(), nil, nil), Session{1}
	var out Output
	do = func(now int64, cmd *Command) wire.Result {
		out.Reset()
		res := s.Apply(Clock{Now: now}, cmd, &out)
		if err := res.Err(); err != nil {
			t.Fatal(err)
		}
		return res
	}
	for i := range leases {
		path := fmt.Sprintf("h:/a/%06d", i)
		do(1, &Command{NS: "h:/a", Caller: Caller{Session: session, ID: uint64(i) + 1}, Epoch: 1, Bound: true,
			Grace: 500, Req: &wire.Request{
				Op: wire.OpAcquire, Owner: fmt.Sprintf("o%06d", i), TTLMillis: 3_600_000,
				Locks: []wire.LockRequest{{Path: path}},
			}})
	}
	return s, session, do
}

// TestDepartureInSteps: the end of a connection with very many leases takes no step for long,
// and yet ends each of them after its grace from then on, but for those that were renewed
// since; a restart in the middle changes nothing.
func TestDepartureInSteps(t *testing.T) {
	const leases, budget = 5000, 300
	s, session, do := departed(t, leases)
	detach := &Command{Caller: Caller{Session: session}, Epoch: 1, Req: &wire.Request{Op: wire.OpDetach}}
	renew := func(i int, bound bool) *Command {
		return &Command{Caller: Caller{Session: session, ID: 1 << 30}, Epoch: 2, Bound: bound, Grace: 500,
			Req: &wire.Request{
				Op: wire.OpRenew, Owner: fmt.Sprintf("o%06d", i), TTLMillis: 3_600_000,
			}}
	}
	do(1000, detach)
	touched := func() (n int) {
		s.leases.All().Ascend(func(_ string, l *lease) bool {
			if l.deadline == 1500 {
				n++
			}
			return true
		})
		return n
	}
	if n := touched(); n > departAtOnce {
		t.Errorf("the step that closes the connection sees to %d leases", n)
	}
	do(1001, renew(leases-1, false)) // renewed before their turn: one by the way, one by the next connection
	do(1001, renew(leases-2, true))
	steps, now := 0, int64(1001)
	var out Output
	for last := touched(); ; steps++ {
		now++
		if due, ok := s.NextDeadline(); !ok || due > now {
			break
		}
		out.Reset()
		s.ExpireSome(Clock{Now: now}, &out, budget)
		n := touched()
		if n-last > budget {
			t.Fatalf("a step sees to %d leases, and may to %d", n-last, budget)
		}
		last = n
		if steps == 5 { // a restart
			again := New(DefaultConfig(), nil, nil)
			err := s.View().Rows(0, func(row, val []byte) error { return again.Load(row, val) })
			if err == nil {
				err = again.Loaded()
			}
			if err != nil || again.View().Digest() != s.View().Digest() {
				t.Fatalf("loaded anew it is another: %v", err)
			}
			s = again
		}
	}
	if steps < leases/budget || touched() != leases-2 {
		t.Errorf("after %d steps %d of %d leases end after the grace", steps, touched(), leases)
	}
	for due, ok := s.NextDeadline(); ok && due <= 1500; due, ok = s.NextDeadline() {
		out.Reset()
		s.ExpireSome(Clock{Now: 1500}, &out, budget)
	}
	for i, want := range map[int]bool{0: false, leases / 2: false, leases - 2: true, leases - 1: true} {
		if alive := s.View().Alive(fmt.Sprintf("o%06d", i), nil); alive != want {
			t.Errorf("lease %d is alive: %v", i, alive)
		}
	}
}

// TestDepartureMeetsGrant: a polled place that the end of its connection has not come to is granted
// for no more than the grace.
func TestDepartureMeetsGrant(t *testing.T) {
	s, session, do := departed(t, 2*departAtOnce)
	acquire := func(owner string) *Command {
		return &Command{NS: "h:/z", Caller: Caller{ID: 1}, Req: &wire.Request{
			Op: wire.OpAcquire, Owner: owner, TTLMillis: 3_600_000, Locks: []wire.LockRequest{{Path: "h:/z/x"}},
		}}
	}
	do(1, acquire("holder"))
	polls := acquire("polls") // its key is the last
	polls.Caller, polls.Epoch, polls.Bound, polls.Grace = Caller{session, 1 << 30}, 1, true, 500
	if res := do(1, polls); res.Status != wire.StatusQueued {
		t.Fatalf("%+v", res)
	}
	do(1000, &Command{Caller: Caller{Session: session}, Epoch: 1, Req: &wire.Request{Op: wire.OpDetach}})
	if _, ok := s.NextDeadline(); !ok || s.departing.Empty() {
		t.Fatal("the end of the connection is through already")
	}
	do(1000, &Command{NS: "h:/z", Req: &wire.Request{
		Op: wire.OpRelease, Owner: "holder", Releases: []wire.ReleaseRequest{{Path: "h:/z/x"}},
	}})
	if l := s.leases.Get(s.leaseKey("polls", "h:/z")); !l.held() || l.deadline != 1500 {
		t.Errorf("it is granted until %d, want 1500", l.deadline)
	}
}

// BenchmarkDeparture is the end of a connection with 300 000 leases, and the longest step it
// takes.
func BenchmarkDeparture(b *testing.B) {
	s, session, do := departed(b, 300_000)
	b.ResetTimer()
	for range b.N {
		do(1000, &Command{Caller: Caller{Session: session}, Epoch: 1, Req: &wire.Request{Op: wire.OpDetach}})
		var out Output
		for due, ok := s.NextDeadline(); ok && due <= 1400; due, ok = s.NextDeadline() {
			s.ExpireSome(Clock{Now: 1400}, &out, s.cfg.ReapBudget)
		}
	}
}

// TestGraceOfTheLaterConnection: the lease of a session that came back and tied it anew, with a
// shorter grace, ends with that grace when its later connection ends, whatever the grace was that
// the earlier one had: nobody else ever tied it.
func TestGraceOfTheLaterConnection(t *testing.T) {
	const hour = 3_600_000
	s, id := New(DefaultConfig(), nil, nil), Session{1}
	var out Output
	do := func(now int64, epoch uint64, grace int64, req *wire.Request) wire.Result {
		out.Reset()
		cmd := &Command{NS: "h:/a", Caller: Caller{Session: id, ID: uint64(now)}, Epoch: epoch, Bound: grace >= 0,
			Grace: max(grace, 0), Req: req}
		res := s.Apply(Clock{Now: now}, cmd, &out)
		if err := res.Err(); err != nil {
			t.Fatal(err)
		}
		return res
	}
	acquire := &wire.Request{Op: wire.OpAcquire, Owner: "o", TTLMillis: hour,
		Locks: []wire.LockRequest{{Path: "h:/a/x"}}}
	detach := &wire.Request{Op: wire.OpDetach}
	do(1, 1, hour/2, acquire)
	do(1000, 1, -1, detach) // half an hour to come back in
	// It does, and ties its lease with a grace of a second from now on.
	do(2000, 2, 1000, &wire.Request{Op: wire.OpBind, Owner: "o", TTLMillis: hour, GraceMillis: 1000})
	do(3000, 2, -1, detach) // and dies
	s.ExpireSome(Clock{Now: 60_000}, &out, 100)
	if l := s.leases.Get(s.leaseKey("o", "h:/a")); l != nil && l.held() {
		t.Errorf("the lease lasts until %d s, and its connection, whose grace is 1 s, ended at 3 s", l.deadline/1000)
	}
}
