package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
)

// TestRestoredCalls: no call of gRPC or HTTP of the old cluster is there in the one that was restored, wherever it
// waited. What becomes free is granted to who waits behind it in a session that may come back.
func TestRestoredCalls(t *testing.T) {
	r := newRig(t, nil)
	const peer = "the raft host id of another node"
	r.node.processes.note(peer, 0)
	holder, back, calling, forwarded := r.session(), r.session(), r.served(), r.session()
	forwarded.session.ID = newSessionOf(peer, 7)
	for _, path := range []string{"h:/a/x", "h:/a/y", "h:/b/x"} {
		holder.must(write("holder", path, time.Hour))
	}
	r.row(calling, "call", "h:/a/x")
	r.row(forwarded, "forwarded", "h:/a/x")
	r.row(back, "back", "h:/a/x")
	r.row(forwarded, "forwarded", "h:/a/y")
	r.row(calling, "call", "h:/b/x")
	other, _ := r.restore(r.save(nil))
	c := other.session()
	for path, want := range map[string]string{"h:/a/x": "back", "h:/a/y": "", "h:/b/x": ""} {
		c.must(release("holder", path))
		if owner := c.inspect(path).Owner; owner != want {
			t.Errorf("%s is granted to %q, want %q", path, owner, want)
		}
	}
	if open := other.openCalls(); len(open) != 0 {
		t.Errorf("%d calls are open yet", len(open))
	}
}

// openCalls lists the open calls of all groups.
func (r *rig) openCalls() (open []engine.OpenCall) {
	for _, m := range r.node.hosted() {
		m.Lock()
		for _, g := range m.Order {
			open = append(open, g.State.OpenCalls()...)
		}
		m.Unlock()
	}
	return open
}
