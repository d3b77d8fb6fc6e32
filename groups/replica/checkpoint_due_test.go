package replica

import (
	"testing"
	"time"

	sm "github.com/lni/dragonboat/v4/statemachine"

	"github.com/pathlockd/pathlockd/groups/rows"
)

// TestCheckpointIsDue: after so many commands a replica asks for a checkpoint, until there is one.
func TestCheckpointIsDue(t *testing.T) {
	b := newBare(t, rows.FirstLog, DefaultLimits())
	n := noted{told: make(map[string]int)}
	b.m.Host = n
	update := func() (asked int) {
		t.Helper()
		clear(n.told)
		entry := b.batch([]*bareCall{bareAsk(nil, 0, write("o", "h:/a", time.Hour))})
		b.index++
		if _, err := b.m.Update([]sm.Entry{{Index: b.index, Cmd: entry}}); err != nil {
			t.Fatal(err)
		}
		return n.told["checkpoint soon"]
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
