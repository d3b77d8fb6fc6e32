package groups

import (
	"testing"
	"time"
)

// TestEndsTakeNobodysPlace: the ends of a process's waits do not count among the requests of their group that may be
// under way: they come all at once, and requests would be refused for them.
func TestEndsTakeNobodysPlace(t *testing.T) {
	r := newRig(t, nil)
	const path = "h:/a/x"
	holder := r.session()
	holder.must(write("holder", path, time.Hour))
	served := r.served()
	for _, owner := range []string{"a", "b", "c"} {
		r.row(served, owner, path)
	}
	group := r.node.groupOf("h:/a")
	l := r.node.logOf(group)
	l.pauses(true)
	defer l.pauses(false)
	r.node.processOver(r.node.id.HostID, r.node.id.Starts)
	if under := r.node.inflight[r.node.slot(group)].Load(); under != 0 {
		t.Errorf("%d requests are under way", under)
	}
}
