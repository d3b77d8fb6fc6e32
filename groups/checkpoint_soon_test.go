package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
)

// untimed is tasks for whom no time passes as they wait.
type untimed struct{ goroutines }

func (u untimed) wait(_ time.Duration, on ...<-chan struct{}) int {
	return u.goroutines.wait(forever, on...)
}

// TestCheckpointSoon: a checkpoint that a replica asks for is taken before its time.
func TestCheckpointSoon(t *testing.T) {
	b := newBare(t, rows.FirstLog, replica.DefaultLimits())
	n := b.n
	n.tasks, n.ready, n.stop, n.cfg.SnapshotLog = untimed{}, make(chan struct{}), make(chan struct{}), 1<<62
	n.logs = map[uint64]*shardLog{rows.SystemLog: newShardLog(n, rows.SystemLog), b.l.shard: b.l}
	b.l.local.Store(b.m)
	b.m.Loaded.Store(true)
	close(n.ready)
	over := make(chan struct{})
	go func() {
		defer close(over)
		n.checkpointLoop()
	}()
	replicaHost{n}.CheckpointSoon()
	eventually(t, "the state is on disk", func() bool {
		var on rows.State
		_, err := n.store.Get(replica.LogKey(b.l.shard, rows.LogState, nil), func(val []byte) (err error) {
			on, err = rows.ParseState(val)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return on.Applied == b.m.AppliedIndex()
	})
	close(n.stop)
	<-over
}
