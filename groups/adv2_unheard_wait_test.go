package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv2WaitAskedAgainAfterUnheard: a wait's node is told nothing by its log, which has no
// leader, and answers that the outcome is not known. The client repeats the request under its id,
// as it is told to, and gets its place again once there is a leader. That the node wanted the
// first call's wait to be ended must not end the repeat's.
func TestAdv2WaitAskedAgainAfterUnheard(t *testing.T) {
	const path = "h:/cut/x"
	w := new(network)
	f := newFleet(t, 3, func(_ int, c *Config) {
		c.Faults, c.EvictionWindow, c.LogCount, c.RequestTimeout = w, time.Hour, 1, 8*time.Second
	})
	f.settle(3)
	led := f.leader(path)
	n, r := f.nodes[(led+1)%3], f.rigOn((led+1)%3)
	holder := f.rigOn(led).session()
	holder.must(write("holder", path, time.Hour))
	client, id := r.session(), r.next.Add(1)
	req := waiting(write("waits", path, time.Hour))
	req.QueueTTLMillis = 8000
	first := client.start(id, req)
	<-first.queued
	for _, o := range f.nodes {
		w.set(o.id.NodeID, true)
	}
	if res := first.get(t, "the wait"); res.Code != wire.DeadlineExceeded || res.Cause == wire.CauseWaitOver {
		t.Fatalf("its outcome is not known: %+v", res)
	}
	l := n.logs[firstLogShard]
	f.until("that it is to be ended was not heard", func() bool {
		n.unheard.mu.Lock()
		defer n.unheard.mu.Unlock()
		return len(n.unheard.list) > 0
	})
	again := *req
	second := client.start(id, &again)
	f.until("it is told again", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.mu.queue) > 1
	})
	for _, o := range f.nodes {
		w.set(o.id.NodeID, false)
	}
	select {
	case res := <-second.queued:
		t.Logf("the repeat is told its place: %+v", res)
	case res := <-second.done:
		t.Fatalf("the repeat is answered %+v", res)
	case <-time.After(30 * time.Second):
		t.Fatal("the repeat is told nothing")
	}
	if res := second.get(t, "the repeat"); res.Code == wire.Cancelled {
		t.Errorf("nobody cancelled it: %+v", res)
	} else {
		t.Logf("%+v", res)
	}
}
