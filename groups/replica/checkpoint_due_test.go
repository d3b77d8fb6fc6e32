package replica

import (
	"testing"

	sm "github.com/lni/dragonboat/v4/statemachine"

	"github.com/pathlockd/pathlockd/wire"
)

// TestCheckpointIsDue: after so many commands a replica asks for a checkpoint, until there is one.
func TestCheckpointIsDue(t *testing.T) {
	b := newBare(t, FirstLogShard, DefaultLimits())
	update := func() (asked int) {
		t.Helper()
		was := b.checkpoints
		entry := b.batch([]*bareCall{bareAsk(nil, 0, &wire.Request{Op: wire.OpAcquire, Owner: "o", Locks: []wire.LockRequest{{Path: "h:/a"}}})})
		b.index++
		if _, err := b.m.Update([]sm.Entry{{Index: b.index, Cmd: entry}}); err != nil {
			t.Fatal(err)
		}
		return b.checkpoints - was
	}
	b.m.commands = checkpointCommands - 2
	for i, want := range []int{0, 1, 1} {
		if asked := update(); asked != want {
			t.Errorf("update %d asks for %d checkpoints, want %d", i, asked, want)
		}
	}
	if err := b.m.Checkpoint(false); err != nil {
		t.Fatal(err)
	}
	if asked := update(); asked != 0 {
		t.Errorf("after a checkpoint an update asks for %d", asked)
	}
}
