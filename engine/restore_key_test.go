package engine

import (
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestRestoredChangeKeepsItsKey: a backup is taken while a keyed policy change is under way. The restored cluster goes
// on with it and knows its key: a repeat waits for its end, and is no change of its own whose answer that end would be
// taken for. Answers to other keys are forgotten.
func TestRestoredChangeKeepsItsKey(t *testing.T) {
	for name, refused := range map[string]string{"done": "", "refused": "a lock is in the way"} {
		t.Run(name, func(t *testing.T) {
			s := NewSystem()
			var done []Done
			ask := func(id byte, req *wire.Request) wire.Result {
				return s.Apply(Clock{Now: 1}, &Command{Req: req, Caller: Caller{Session{id}, uint64(id)}}, &done)
			}
			set := &wire.Request{Op: wire.OpSetPolicy, Namespace: "h:/a/b", Algorithm: wire.PointRW, Key: "k"}
			incr := &wire.Request{Op: wire.OpIncrToken, Key: "k"}
			first, token := ask(1, set).Count, ask(1, incr).Token
			s.Raise(500)
			again := NewSystem() // as the new cluster reads it
			for row, val := range s.AllRows() {
				if err := again.Load([]byte(row), val); err != nil {
					t.Fatal(err)
				}
			}
			again.Loaded()
			if s = again; ask(2, incr).Token <= max(token, 500) {
				t.Error("what was answered before the restore is known")
			}
			waits := func(id byte) {
				t.Helper()
				if res := ask(id, set); res.Status != wire.StatusQueued || res.Count != first {
					t.Errorf("a repeat of change %d is answered %+v", first, res)
				}
			}
			waits(2)
			other := &wire.Request{Op: wire.OpSetPolicy, Namespace: "h:/a/c", Algorithm: wire.PointRW, Key: "k"}
			if res := ask(3, other); res.Code != wire.InvalidArgument {
				t.Errorf("another request with its key is answered %+v", res)
			}
			waits(4)
			if refused == "" {
				ask(0, &wire.Request{Op: wire.OpRouteCommit, Target: first, Attempt: 1})
			}
			ask(0, &wire.Request{Op: wire.OpRouteFinish, Target: first, Detail: refused, Attempt: 1})
			switch res := ask(5, set); {
			case refused == "" && (res.Code != wire.OK || res.Status != wire.StatusOK):
				t.Errorf("a repeat of what is done is answered %+v", res)
			case refused != "" && (res.Status != wire.StatusQueued || res.Count == first):
				t.Errorf("a repeat of what was refused is answered %+v", res)
			}
		})
	}
}
