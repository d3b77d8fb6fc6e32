package groups

import (
	"errors"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4"
)

// TestAskedWhileItCloses: who reads, and connections that end, ask raft for something while the node stops. dragonboat
// is not closed under such a call: it panics when it is. Who comes later is refused.
func TestAskedWhileItCloses(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	n, l := r.node, r.node.logs[firstLogShard].raft.(*dragonLog)
	asking, asked := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(asked)
		_, err := l.ask(func() (*dragonboat.RequestState, error) {
			close(asking)
			<-n.stop
			for began := time.Now(); time.Since(began) < time.Second; time.Sleep(time.Millisecond) {
				if _, err := l.host.ReadIndex(l.shard, time.Second); errors.Is(err, dragonboat.ErrClosed) {
					t.Error("closed while it was being asked")
					break
				}
			}
			return nil, errBusy
		})
		if !errors.Is(err, errBusy) {
			t.Errorf("asked: %v", err)
		}
	}()
	<-asking
	r.close()
	<-asked
	if _, err := l.propose(nil, time.Second); !errors.Is(err, errNoReplica) {
		t.Errorf("proposed to a closed log: %v", err)
	}
	if _, err := l.readIndex(time.Second); !errors.Is(err, errNoReplica) {
		t.Errorf("read from a closed log: %v", err)
	}
}
