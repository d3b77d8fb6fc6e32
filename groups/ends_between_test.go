package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/groups/rows"
)

// TestEndsBetweenLooks: a process is found to be over just after the log was looked at for ends that come first, and
// before a batch is taken from its queue. Nothing is carried out until they are over, as if they had been seen.
func TestEndsBetweenLooks(t *testing.T) {
	r := newRig(t, func(c *Config) { c.LogCount = 1 })
	const path = "h:/a/x"
	holder := r.session()
	holder.must(write("holder", path, time.Hour))
	r.row(r.served(), "call", path)
	l := r.node.logs[rows.FirstLog]
	m := l.local.Load()
	r.clock.freeze()
	defer r.clock.run()
	holder.must(write("holder", path, time.Hour)) // what is carried out last is of now, however long all this took
	eventually(t, "nothing is under way", l.idle)
	l.drive.Lock()
	defer l.drive.Unlock()
	own := replica.LeaderEpoch{Term: l.mine(), Node: m.Replica, Incarnation: l.process}
	if l.heldUp(own) {
		t.Fatal("it is held up by nothing")
	}
	r.node.processOver(r.node.id.HostID, r.node.id.Starts)
	l.mu.Lock()
	f, _ := l.nextBatch(own, false) // as take does, which has looked before
	l.mu.Unlock()
	if f == nil || !l.send(own, m, f, false) {
		t.Fatal("the ends are not taken")
	}
	for landed := false; !landed; {
		l.mu.Lock()
		landed = len(l.mu.batches) == 0
		l.mu.Unlock()
	}
	if !l.heldUp(own) {
		t.Error("time goes on, and all that is asked for is carried out, before the ends are over")
	}
}
