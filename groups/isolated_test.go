package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// TestIsolatedLeaderReadsNothing: a leader that is cut off from the others answers no
// read from what it knows, from the first moment on: the others may have gone on.
func TestIsolatedLeaderReadsNothing(t *testing.T) {
	t.Parallel()
	w := new(network)
	f := calm(t, func(c *Config) { c.Faults, c.RequestTimeout = w, 2*time.Second })
	const path = "h:/a/x"
	at := f.leader(path)
	c := f.rigOn(at).session()
	c.must(write("o", path, time.Hour))
	c.inspect(path)
	n := f.nodes[at]
	shard := n.logOf(n.groupOf(n.routes.Load().Resolve(path))).shard
	w.set(n.id.NodeID, true)
	for _, req := range []*wire.Request{
		{Op: wire.OpInspectPath, Path: path},
		{Op: wire.OpAssertFencing, Owner: "o", Token: 1, Paths: []string{path}},
		{Op: wire.OpBackupOpen, Target: shard},
	} {
		if res := c.ask(req); res.Code != wire.Unavailable {
			t.Errorf("%v: %+v", req.Op, res)
		}
	}
	c.openImage(shard, true) // whoever asks for what is here is told that
}

// TestReadWithLittleTimeLeft: a step of a call that began long ago does not wait for the time of
// the read that is being served while no leader answers.
func TestReadWithLittleTimeLeft(t *testing.T) {
	t.Parallel()
	w := new(network)
	f := calm(t, func(c *Config) { c.Faults, c.RequestTimeout = w, 3*time.Second })
	n := f.nodes[f.leader("h:/a/x")]
	r := n.readers[n.logOf(n.groupOf("h:/a")).shard]
	w.set(n.id.NodeID, true)
	over := make(chan string, 2)
	ask := func(name string, since time.Duration) {
		r.do(since, func(_ *replica.Machine, err *wire.Error) {
			if err == nil {
				name += " was served"
			}
			over <- name
		})
	}
	ask("the one with all its time", n.clock.Mono())
	eventually(t, "it is being served", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.busy && len(r.waiting) == 0
	})
	ask("the one with little time left", n.clock.Mono()-n.cfg.RequestTimeout+100*time.Millisecond)
	if first := <-over; first != "the one with little time left" {
		t.Errorf("answered first: %s", first)
	}
	<-over
}
