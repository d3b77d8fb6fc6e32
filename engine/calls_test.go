package engine

import (
	"maps"
	"slices"
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestWaitsOfAGoneConnection: what waits for a session ends with its last connection, or after its
// grace, also when nobody ends it by its request: the node that its client asked last may never
// have got that on its way. It makes no difference how much the session waits for.
func TestWaitsOfAGoneConnection(t *testing.T) {
	const waits = 4 * departAtOnce
	for _, grace := range []int64{0, 500} {
		s, session, do := departed(t, 0)
		path := []wire.LockRequest{{Path: "h:/a/x"}}
		acquire := func(by Session, id uint64, owner string) *Command {
			return &Command{NS: "h:/a", Caller: Caller{by, id}, Epoch: 1, Bound: grace > 0, Grace: grace,
				Req: &wire.Request{
					Op: wire.OpAcquire, Owner: owner, TTLMillis: 3_600_000, QueueTTLMillis: 60_000, Locks: path,
					Flags: wire.FlagWait,
				}}
		}
		do(1, acquire(Session{2}, 1, "holder"))
		for i := range uint64(waits) {
			if res := do(1, acquire(session, i+1, "waits")); res.Status != wire.StatusQueued {
				t.Fatalf("%+v", res)
			}
		}
		of := func(id Session) []OpenCall { return s.View().OpenCalls(func(s Session) bool { return s == id }) }
		if !s.AnyOpen() || !slices.Equal(of(session), s.OpenCalls()) || len(of(Session{2})) > 0 {
			t.Errorf("the open calls are %v, in a view %v", s.OpenCalls(), of(session))
		}
		do(1000, &Command{Caller: Caller{Session: session}, Epoch: 2, Req: &wire.Request{Op: wire.OpDetach}})
		do(1000, &Command{NS: "h:/a", Req: &wire.Request{
			Op: wire.OpRelease, Owner: "holder", Releases: []wire.ReleaseRequest{{Path: "h:/a/x"}},
		}})
		for now := int64(1001); s.Expire(Clock{Now: now}, new(Output)); now++ {
		}
		l := s.leases.Get(s.leaseKey("waits", "h:/a"))
		switch {
		case grace == 0 && l.held():
			t.Errorf("without a grace it is granted until %d", l.deadline)
		case grace > 0 && (!l.held() || l.deadline != 1000+grace):
			t.Errorf("with a grace of %d it is granted: held %v, until %d", grace, l.held(), l.deadline)
		}
		s.Expire(Clock{Now: 2000}, new(Output))
		if len(s.OpenCalls()) > 0 || len(s.calls) > 0 || !s.waiters.Empty() {
			t.Errorf("with a grace of %d, %d calls are open after it", grace, len(s.OpenCalls()))
		}
	}
}

// TestCallsAreTidied: what a session's calls take follows from how many are open, however many were answered since the
// oldest of them was asked; they are told in their order.
func TestCallsAreTidied(t *testing.T) {
	s := &State{calls: make(map[Session]*calls)}
	id := Session{1}
	const all, left = 10_000, 7
	for i := range uint64(all) {
		s.openCall(Caller{id, i + 1}, i+1)
	}
	for i := range uint64(all) {
		if i%(all/left) != 0 {
			s.closeCall(Caller{id, i + 1}, i+1)
		}
	}
	of := s.calls[id]
	if n := len(of.waiting); len(of.order) > 2*n+16 || !slices.IsSorted(of.order) {
		t.Errorf("%d calls are open, of %d numbers", n, len(of.order))
	}
	for seq := range maps.Values(of.waiting) {
		if !slices.Contains(of.order, seq) {
			t.Errorf("call %d has no place", seq)
		}
	}
	for id, seq := range maps.Clone(of.waiting) {
		s.closeCall(Caller{Session{1}, id}, seq)
	}
	if len(s.calls) != 0 {
		t.Errorf("%d sessions have no open call and are kept", len(s.calls))
	}
}
