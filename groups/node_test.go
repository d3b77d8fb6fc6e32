package groups

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/datadir"
	"github.com/pathlockd/pathlockd/wire"
)

// TestBackPressure fills a group up: one request more is refused at once, with
// nothing done.
func TestBackPressure(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxInflight = 3 })
	c := r.session()
	l := r.node.logOf(r.node.groupOf("h:/a"))
	l.local.Load().Lock() // nothing is applied
	var open []*outcome
	for i := range 3 {
		open = append(open, c.start(r.next.Add(1), write("a", fmt.Sprintf("h:/a/%d", i), time.Hour)))
	}
	res := <-c.start(r.next.Add(1), write("a", "h:/a/3", time.Hour)).done
	l.local.Load().Unlock()
	if res.Code != wire.Unavailable || !strings.Contains(res.Message, "max_inflight_per_group") {
		t.Fatalf("one more: %+v", res)
	}
	for _, o := range open {
		if res := <-o.done; res.Status != wire.StatusOK || res.Code != wire.OK {
			t.Fatalf("one of those before: %+v", res)
		}
	}
	if res := c.inspect("h:/a/3"); res.Owner != "" {
		t.Fatal("the refused request was carried out")
	}
	c.must(write("a", "h:/a/3", time.Hour))
}

// TestNoLeader says that what no leader took in time was surely not done.
func TestNoLeader(t *testing.T) {
	r := newRig(t, func(c *Config) { c.RequestTimeout = 300 * time.Millisecond })
	c := r.session()
	l := r.node.logOf(r.node.groupOf("h:/a"))
	lead := l.lead.Load()
	l.leaderChanged(lead.term, 0)
	res := <-c.start(r.next.Add(1), write("a", "h:/a/1", time.Hour)).done
	if res.Code != wire.Unavailable {
		t.Fatalf("without a leader: %+v", res)
	}
	l.leaderChanged(lead.term, lead.leader)
	l.held.Store(lead.term)
	l.kick()
	if res := c.inspect("h:/a/1"); res.Owner != "" {
		t.Fatal("the request was carried out")
	}
}

// TestFullDisk refuses writes when the disk is nearly full, and still reads and
// releases.
func TestFullDisk(t *testing.T) {
	var free atomic.Uint64
	free.Store(testReserve)
	r := newRig(t, func(c *Config) {
		c.DiskReserve = testReserve
		c.Free = func(string) (uint64, error) { return free.Load(), nil }
	})
	c := r.session()
	c.must(write("a", "h:/a/1", time.Hour))
	free.Store(testReserve - 1)
	r.node.lookAtDisk()
	if res := c.ask(write("a", "h:/a/2", time.Hour)); res.Code != wire.Unavailable {
		t.Errorf("an acquire on a disk that is nearly full: %+v", res)
	}
	c.must(&wire.Request{Op: wire.OpRenew, Owner: "a", TTLMillis: 3_600_000})
	free.Store(testReserve/2 - 1)
	r.node.lookAtDisk()
	for _, req := range []*wire.Request{
		write("a", "h:/a/2", time.Hour), {Op: wire.OpRenew, Owner: "a", TTLMillis: 1000},
		setPolicy("h:/a", wire.PointRW),
		{Op: wire.OpIncrToken},
	} {
		if res := c.ask(req); res.Code != wire.Unavailable || !strings.Contains(res.Message, "disk_reserve_bytes") {
			t.Errorf("%v on a full disk: %+v", req.Op, res)
		}
	}
	if h := r.node.health(); h.Flag || !strings.Contains(h.Message, "disk_reserve_bytes") {
		t.Errorf("health on a full disk: %+v", h)
	}
	if res := c.inspect("h:/a/1"); res.Owner != "a" {
		t.Error("a read on a full disk")
	}
	c.must(release("a", "h:/a/1"))
	free.Store(testReserve)
	r.node.lookAtDisk()
	c.must(write("a", "h:/a/2", time.Hour))
	if h := r.node.health(); !h.Flag {
		t.Errorf("health when there is room again: %+v", h)
	}
}

// TestFreeBytes asks the system, where nothing is injected.
func TestFreeBytes(t *testing.T) {
	if free, err := datadir.FreeBytes(t.TempDir()); err != nil || free == 0 {
		t.Errorf("%d bytes free, %v", free, err)
	}
	if free, err := datadir.FreeBytes(t.TempDir() + "/none"); err == nil {
		t.Errorf("%d bytes free where nothing is", free)
	}
}
