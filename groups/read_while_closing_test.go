package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// TestReadWhileTheNodeEnds: a node is closed while a read, which is up to date already, has not yet looked on disk for
// the fence of a path that nobody holds. The node waits for that before it closes its database: to ask one that is
// closed ends the process (contract.md section 14: SIGTERM drains).
func TestReadWhileTheNodeEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	n, c := r.node, r.session()
	const path = "h:/a/x"
	c.must(write("o", "h:/a/y", time.Hour))
	group := n.groupOf("h:/a")
	m := n.logOf(group).local.Load()
	closed, reads, read := make(chan struct{}), make(chan struct{}), make(chan any, 1)
	n.readers[m.Shard].do(n.clock.Mono(), func(m *replica.Machine, err *wire.Error) {
		defer func() { read <- recover() }()
		if err != nil {
			t.Errorf("it is not up to date: %v", err)
			return
		}
		close(reads)
		select {
		case <-closed:
		case <-time.After(time.Second): // it is waited for
		}
		m.Answer(&replica.Query{What: replica.AskInspect, Group: group, NS: "h:/a", Path: path,
			Version: replica.AnyVersion})
	})
	<-reads
	go func() {
		defer close(closed)
		if err := n.Close(0); err != nil {
			t.Error(err)
		}
	}()
	if why := <-read; why != nil {
		t.Errorf("the read ends the process: %v", why)
	}
	<-closed
}
