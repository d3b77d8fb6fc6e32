package replica

import (
	"testing"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// TestSessionOfEarlierBuild: the row of a session that ends before its epoch is one whose
// epoch was not kept.
func TestSessionOfEarlierBuild(t *testing.T) {
	limits := DefaultLimits()
	for _, c := range []struct {
		row   string
		epoch uint64
		code  wire.Code
	}{
		{row: "\x0e\x10\x01\x03\x00\x00\x00\x00\x05\x03\x00\x12"},
		{row: "\x0e\x10\x01\x03\x00\x00\x00\x00\x05\x03\x00\x12\x04\x00\x08\x02", epoch: 4,
			code: wire.ResourceExhausted},
	} {
		all := newSessions()
		if err := all.load(engine.Session{1}, []byte(c.row), &limits); err != nil {
			t.Fatal(err)
		}
		got := all.ByID[engine.Session{1}]
		a := got.find(3, 0)
		if got.last != 7 || got.window != 16 || got.Epoch != c.epoch || a == nil || a.token != 9 || a.hash != 5 ||
			a.code != c.code {
			t.Errorf("loaded %+v", got)
		}
		if got.find(2, 0) != nil || !got.forgot(2, false) || got.forgot(4, false) {
			t.Error("what is below the answers may be a repeat, and what is above is none")
		}
		again, err := sessionOf(got.id, got.row(), &limits)
		if err != nil || string(again.row()) != string(got.row()) {
			t.Errorf("written anew it is %+v, %v", again, err)
		}
	}
}
