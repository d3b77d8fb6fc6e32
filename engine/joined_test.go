package engine

import (
	"testing"

	"github.com/pathlockd/pathlockd/wire"
)

// TestJoinedChanges: requests with the key of a policy change that is under way wait for it, each once and no more than
// a few; a state that is loaded from its rows knows them too.
func TestJoinedChanges(t *testing.T) {
	s := NewSystem()
	var done []Done
	ask := func(c Caller) wire.Result {
		return s.Apply(Clock{Now: 1}, &Command{Caller: c, Req: &wire.Request{
			Op: wire.OpSetPolicy, Namespace: "h:/a", Algorithm: wire.PointRW, Key: "k",
		}}, &done)
	}
	for i := range uint64(maxJoined + 1) {
		for range 2 {
			if res := ask(Caller{Session{byte(i + 1)}, 7}); res.Status != wire.StatusQueued || res.Count != 1 {
				t.Fatalf("request %d: %+v", i, res)
			}
		}
	}
	if res := ask(Caller{Session{99}, 7}); res.Code != wire.ResourceExhausted {
		t.Errorf("one more is answered %+v", res)
	}
	again := NewSystem()
	for row, val := range s.AllRows() {
		if err := again.Load([]byte(row), val); err != nil {
			t.Fatal(err)
		}
	}
	again.Loaded()
	if again.Digest() != s.Digest() {
		t.Error("a state that was loaded is another one")
	}
	last := Caller{Session{maxJoined + 1}, 7}
	if !again.Waits(last) || again.Waiting(last.Session) != 1 || len(again.Callers()) != maxJoined+1 {
		t.Errorf("%d sessions wait, the last of them %d times", len(again.Callers()), again.Waiting(last.Session))
	}
}
