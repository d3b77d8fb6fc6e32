package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestCrowdOfOperators: who asks for the status while the leader of the system log is gone
// does not wait behind all others who ask, one by one: they share what is found out.
func TestCrowdOfOperators(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 2, func(_ int, c *Config) { c.StabilityWindow, c.ReplicationFactor = time.Hour, 1 })
	r := f.rigOn(1)
	f.until("the forwarder is ready", func() bool { return r.node.health().Flag })
	if err := f.nodes[0].Close(0); err != nil {
		t.Fatal(err)
	}
	f.nodes[0] = nil
	crowd := make([]*outcome, 60)
	for i := range crowd {
		crowd[i] = r.session().start(r.next.Add(1), &wire.Request{Op: wire.OpClusterStatus})
	}
	late := time.After(40 * time.Second) // one by one they take a minute
	for i, o := range crowd {
		select {
		case res := <-o.done:
			if res.Code != wire.OK {
				t.Errorf("status: %+v", res)
			}
		case <-late:
			t.Fatalf("%d of %d looks at once were answered", i, len(crowd))
		}
	}
}
