package groups

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/link"
	"github.com/pathlockd/pathlockd/wire"
)

// narrow is a network on which long frames take a while.
type narrow struct{}

// Outgoing implements link.Faults.
func (narrow) Outgoing(p link.Passage) (f link.Fate) {
	if p.Kind == link.Requests && p.Bytes > 1<<20 {
		f.Delay = 500 * time.Millisecond
	}
	return f
}

// TestLongReadsKeepTheLink: many long listings that are asked at once of a node that hosts
// nothing are answered one after the other. The connection between the nodes, on which the
// requests of everybody go, outlives them.
func TestLongReadsKeepTheLink(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 2, func(_ int, c *Config) {
		c.StabilityWindow, c.ReplicationFactor, c.RequestTimeout, c.Faults = time.Hour, 1, time.Minute, narrow{}
	})
	r := f.rigOn(1)
	f.until("the forwarder is ready", func() bool { return r.node.health().Flag })
	deep := strings.Repeat("/"+strings.Repeat("x", 200), 19)
	c := f.rigOn(0).session()
	const locks = 2500
	for i := 0; i < locks; i += 250 {
		req := write("o", "h:/a", time.Hour)
		req.Locks = nil
		for j := range 250 {
			req.Locks = append(req.Locks, wire.LockRequest{Path: fmt.Sprintf("h:/a%s/%d", deep, i+j)})
		}
		c.must(req)
	}
	to := r.node.peer(f.nodes[0].id.HostID)
	reads := make([]*outcome, 16)
	for i := range reads {
		reads[i] = r.session().start(r.next.Add(1), &wire.Request{Op: wire.OpListLocks, Owner: "o"})
	}
	for i, o := range reads {
		select {
		case res := <-o.done:
			if res.Code != wire.OK || len(res.List.Infos) != locks {
				t.Errorf("listing %d: %v %s", i, res.Code, res.Message)
			}
		case <-time.After(time.Minute):
			t.Fatalf("listing %d is not answered", i)
		}
	}
	if r.node.peer(f.nodes[0].id.HostID) != to {
		t.Error("the connection between the nodes ended")
	}
}
