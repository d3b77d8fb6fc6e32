package naive

import (
	"testing"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// TestLateSteps: a step of a policy change that comes of an earlier attempt than the last
// one changes nothing in a group, also when the group was loaded from its rows meanwhile.
func TestLateSteps(t *testing.T) {
	const root = "h:/a/b"
	c := engine.Clock{Now: 1}
	steps := []*wire.Request{
		{Op: wire.OpSetRow, Namespace: root, Algorithm: wire.PointRW, Explicit: true},
		{Op: wire.OpFreeze, Namespace: root},
		{Op: wire.OpThaw, Namespace: root},
		{Op: wire.OpOpen, Namespace: root, Target: 9, Token: 500, Algorithm: wire.PointRW, Explicit: true},
		{Op: wire.OpLeave, Namespace: root, Target: 9},
	}
	for _, last := range steps {
		for _, late := range steps {
			s := engine.New(engine.DefaultConfig(), nil, nil)
			ask := func(req *wire.Request, attempt uint64) wire.Result {
				step := *req
				step.Attempt = attempt
				return s.Apply(c, &engine.Command{Req: &step}, new(engine.Output))
			}
			if late.Op == wire.OpThaw {
				ask(steps[1], 7) // so that there is something to thaw
			}
			if res := ask(last, 8); res.Code != wire.OK {
				t.Fatalf("%v: %v %s", last.Op, res.Code, res.Message)
			}
			rows := make(disk)
			if err := s.View().Rows(0, rows.write); err != nil {
				t.Fatal(err)
			}
			before := s.View().Digest()
			s = engine.New(engine.DefaultConfig(), nil, nil)
			for row, val := range rows {
				if err := s.Load([]byte(row), val); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Loaded(); err != nil {
				t.Fatal(err)
			}
			if res := ask(late, 7); res.Code != wire.Aborted || s.View().Digest() != before {
				t.Errorf("%v of attempt 7 after %v of attempt 8: %v, changed: %v", late.Op, last.Op, res.Code,
					s.View().Digest() != before)
			}
			if res := ask(late, 8); res.Code != wire.OK {
				t.Errorf("%v of the attempt that %v was of: %v %s", late.Op, last.Op, res.Code, res.Message)
			}
			s.Raise(1000)
			if res := ask(late, 1); res.Code != wire.OK {
				t.Errorf("%v of the first attempt of a restored cluster: %v %s", late.Op, res.Code, res.Message)
			}
		}
	}
}

// TestLateDecisions: the system group takes no decision of an attempt that another one has
// followed.
func TestLateDecisions(t *testing.T) {
	for _, late := range []*wire.Request{
		{Op: wire.OpRouteBegin, Attempt: 7},
		{Op: wire.OpRouteCommit, Target: 1, Attempt: 7},
		{Op: wire.OpRouteFinish, Target: 1, Detail: "no", Attempt: 7},
	} {
		s := engine.NewSystem()
		var done []engine.Done
		ask := func(req *wire.Request) wire.Result {
			return s.Apply(engine.Clock{Now: 1}, &engine.Command{Req: req}, &done)
		}
		ask(&wire.Request{Op: wire.OpSetPolicy, Namespace: "h:/a/b", Algorithm: wire.PointRW})
		ask(&wire.Request{Op: wire.OpRouteBegin, Attempt: 8})
		before := s.Digest()
		again := engine.NewSystem()
		for row, val := range s.AllRows() {
			if err := again.Load([]byte(row), val); err != nil {
				t.Fatal(err)
			}
		}
		again.Loaded()
		s = again
		if res := ask(late); res.Code != wire.Aborted || s.Digest() != before || len(done) != 0 {
			t.Errorf("%v: %v, changed: %v, ended: %v", late.Op, res.Code, s.Digest() != before, done)
		}
		s.Raise(1000)
		first := *late
		first.Attempt = 1
		if res := ask(&first); res.Code != wire.OK {
			t.Errorf("%v in a restored cluster: %v %s", late.Op, res.Code, res.Message)
		}
	}
}
