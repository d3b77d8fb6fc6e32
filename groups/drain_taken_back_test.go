package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestTakenBackWhileTheNodeDrains: an acquire is under way at a node that drains, as its log has no leader just now,
// and its caller goes. A drain has what is under way carried out (contract.md section 14), so what is granted to the
// call is taken back by a release that names it, as of any call that has ended (decision 0025). That is no new request:
// it was refused, and the lock was held by nobody who knew of it until its lease ended.
func TestTakenBackWhileTheNodeDrains(t *testing.T) {
	t.Parallel()
	f := newLocalCluster(t, 2, func(_ int, c *Config) { c.StabilityWindow, c.ReplicationFactor = time.Hour, 1 })
	n := f.nodes[1] // hosts nothing, and forwards
	f.until("the forwarder is ready", func() bool { return n.health().Flag })
	if err := f.nodes[0].Close(0); err != nil {
		t.Fatal(err)
	}
	f.nodes[0] = nil

	const owner, path = "gone", "h:/a/x"
	c := f.rigOn(1).session()
	taken := c.start(1, write(owner, path, time.Hour))
	closed := make(chan error, 1)
	go func() { closed <- n.Close(clusterPatience) }()
	f.until("it drains", n.draining.Load)
	refused := c.start(2, write("later", path, time.Hour))
	if res := <-refused.done; res.Code != wire.Unavailable {
		t.Errorf("a new request is answered %v %q", res.Code, res.Message)
	}
	back := release(owner, path)
	back.Target = 1
	given := c.start(3, back)

	f.start(0)
	if res := <-taken.done; res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Errorf("what was under way is answered %v %v %q", res.Code, res.Status, res.Message)
	}
	if res := <-given.done; res.Code != wire.OK {
		t.Errorf("what takes it back is answered %v %q", res.Code, res.Message)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	f.nodes[1] = nil
	if by := f.rigOn(0).session().inspect(path).Owner; by != "" {
		t.Errorf("%s is held by %q, whose call has ended", path, by)
	}
}
