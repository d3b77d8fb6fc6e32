package groups

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// TestBackPressure fills a group up: one request more is refused at once, with
// nothing done.
func TestBackPressure(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxInflight = 3 })
	c := r.session()
	l := r.node.logOf(r.node.groupOf("h:/a"))
	l.local.Load().mu.Lock() // nothing is applied
	var open []*outcome
	for i := range 3 {
		open = append(open, c.start(r.next.Add(1), write("a", fmt.Sprintf("h:/a/%d", i), time.Hour)))
	}
	res := <-c.start(r.next.Add(1), write("a", "h:/a/3", time.Hour)).done
	l.local.Load().mu.Unlock()
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
	r := newRig(t, nil)
	c := r.session()
	c.must(write("a", "h:/a/1", time.Hour))
	free, err := freeBytes(r.cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	r.node.cfg.DiskReserve = free + free/2
	r.node.lookAtDisk()
	if res := c.ask(write("a", "h:/a/2", time.Hour)); res.Code != wire.Unavailable {
		t.Errorf("an acquire on a disk that is nearly full: %+v", res)
	}
	c.must(&wire.Request{Op: wire.OpRenew, Owner: "a", TTLMillis: 3_600_000})
	r.node.cfg.DiskReserve = math.MaxUint64
	r.node.lookAtDisk()
	for _, req := range []*wire.Request{
		write("a", "h:/a/2", time.Hour), {Op: wire.OpRenew, Owner: "a", TTLMillis: 1000}, setPolicy("h:/a", wire.PointRW),
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
	r.node.cfg.DiskReserve = 0
	r.node.lookAtDisk()
	c.must(write("a", "h:/a/2", time.Hour))
	if h := r.node.health(); !h.Flag {
		t.Errorf("health when there is room again: %+v", h)
	}
}

// TestSnapshot streams a log's state while it changes, and reads it back into
// another machine: it is the state of the moment at which it was prepared.
func TestSnapshot(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	fill := func(from, to int) {
		for i := from; i < to; i++ {
			c.must(write(fmt.Sprintf("o%d", i%5), fmt.Sprintf("h:/s%d/%d", i%7, i), time.Hour))
			if i%3 == 0 {
				c.must(release(fmt.Sprintf("o%d", i%5), fmt.Sprintf("h:/s%d/%d", i%7, i)))
			}
		}
	}
	c.must(setPolicy("h:/s1/deep", wire.PointRW))
	fill(0, 100)
	r.clock.freeze()
	for _, m := range r.node.hosted() {
		shard := m.shard
		if err := m.checkpoint(false); err != nil {
			t.Fatal(err)
		}
		m.evict()
		fill(100, 140)
		prepared, err := m.PrepareSnapshot()
		if err != nil {
			t.Fatal(err)
		}
		want := m.digests()
		fill(140, 160)
		var stream bytes.Buffer
		if err := m.SaveSnapshot(prepared, &stream, nil); err != nil {
			t.Fatal(err)
		}
		other := &Node{cfg: r.node.cfg, id: r.node.id, log: r.node.log, clock: r.clock, homes: r.node.homes, hub: newHub(10)}
		other.routes.Store(engine.NewRoutes(0, 1, nil))
		if other.store, err = openStore("other", vfs.NewMem(), r.node.log, r.node.failed); err != nil {
			t.Fatal(err)
		}
		copied := newMachine(other, shard, 1)
		if err := copied.RecoverFromSnapshot(&stream, nil); err != nil {
			t.Fatal(err)
		}
		if got := copied.digests(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("log %d: the copy's digests are %v, want %v", shard, got, want)
		}
		for i := range 30 { // fences that are only on disk came along
			path := fmt.Sprintf("h:/s%d/%d", i%7, i)
			g := r.node.groupOf("h:/s" + fmt.Sprint(i%7))
			if r.node.homes[g] != shard {
				continue
			}
			a, b := m.view(g).Inspect("h:/s"+fmt.Sprint(i%7), path), copied.view(g).Inspect("h:/s"+fmt.Sprint(i%7), path)
			if a.Token != b.Token || a.Flag != b.Flag {
				t.Fatalf("fence of %s: %d %v in the copy, %d %v in the original", path, b.Token, b.Flag, a.Token, a.Flag)
			}
		}
		if err := other.store.close(); err != nil {
			t.Fatal(err)
		}
	}
}

// digests is that of each group with anything in it, and of the system group.
func (m *machine) digests() map[uint16]uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := make(map[uint16]uint64)
	for _, g := range m.order {
		d[g.number] = g.state.View().Digest()
	}
	if m.system != nil {
		d[systemGroup] = m.system.Digest()
	}
	return d
}

// TestEventsResume gives a subscriber that comes back with its cursor every event
// it missed, over a restart too, and tells it when it cannot.
func TestEventsResume(t *testing.T) {
	r := newRig(t, func(c *Config) { c.EventBuffer = 4 })
	c := r.session()
	got := &eventLog{}
	sub := &wire.Subscription{Owner: "a", Sink: got}
	cursor, err := r.node.Subscribe(sub)
	if err != nil {
		t.Fatal(err)
	}
	revoke := func(n int) {
		for range n {
			c.must(&wire.Request{Op: wire.OpRequestRevoke, Owner: "a"})
		}
	}
	revoke(2)
	r.node.Unsubscribe(sub)
	revoke(2)
	if len(got.at) != 2 || got.gaps != 0 {
		t.Fatalf("live: %+v", got)
	}
	resume := func(from []wire.Position) *eventLog {
		t.Helper()
		l := &eventLog{}
		if _, err := r.node.Subscribe(&wire.Subscription{Owner: "a", Sink: l, From: from}); err != nil {
			t.Fatal(err)
		}
		return l
	}
	if l := resume(cursor); len(l.at) != 4 || l.gaps != 0 {
		t.Fatalf("from the start: %+v", l)
	}
	after := append([]wire.Position(nil), cursor...)
	for i := range after {
		if after[i].Log == got.at[1].Log {
			after[i] = got.at[1]
		}
	}
	if l := resume(after); len(l.at) != 2 || l.gaps != 0 {
		t.Fatalf("from the second event: %+v", l)
	}
	r.powerLoss() // nothing was checkpointed: the events are born again from the log
	if l := resume(after); len(l.at) != 2 || l.gaps != 0 {
		t.Fatalf("after a power loss: %+v", l)
	}
	revoke(12) // more than are kept
	if l := resume(after); l.gaps != 1 {
		t.Fatalf("from beyond what is kept: %+v", l)
	}
}

// TestEventsAreToldOnce: entries that are applied again after a restart tell nobody
// but who goes on from a cursor.
func TestEventsAreToldOnce(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	revoke := func() { c.must(&wire.Request{Op: wire.OpRequestRevoke, Owner: "a"}) }
	c.must(write("a", "h:/a/1", time.Hour))
	revoke()
	told, fresh := 0, &eventLog{}
	sub := &wire.Subscription{Owner: "a", Sink: fresh}
	var untap func()
	r.opened = func(n *Node) {
		untap = n.Tap(func(engine.Event, wire.Position) { told++ }, func() {})
		if _, err := n.Subscribe(sub); err != nil {
			t.Error(err)
		}
	}
	r.powerLoss() // nothing was checkpointed: the event is born again from the log
	c = r.session()
	revoke()
	untap()
	r.node.Unsubscribe(sub)
	if told != 1 || len(fresh.at) != 1 {
		t.Errorf("after a restart one event happened; a tap was told %d, a subscriber %d", told, len(fresh.at))
	}
}

type eventLog struct {
	at   []wire.Position
	gaps int
}

func (l *eventLog) Deliver(_ *wire.Subscription, _ wire.EventKind, _, _ string, _ int64, at wire.Position) {
	l.at = append(l.at, at)
}
func (l *eventLog) Progress(*wire.Subscription, []wire.Position) {}
func (l *eventLog) Gap(*wire.Subscription, []wire.Position)      { l.gaps++ }

// TestOwnerWide is what is about an owner in all namespaces at once.
func TestOwnerWide(t *testing.T) { onBoth(t, testOwnerWide) }

func testOwnerWide(t *testing.T, r *rig) {
	c := r.session()
	for _, path := range []string{"h:/a/1", "h:/b/1", "h:/c/1", "g:/a/1"} {
		c.must(write("a", path, time.Hour))
	}
	renew := func(domains ...string) wire.Result {
		return c.ask(&wire.Request{Op: wire.OpRenew, Owner: "a", TTLMillis: 3_600_000, Domains: domains})
	}
	for _, d := range [][]string{nil, {"h:/a"}, {"h:/a/deep/down"}, {"h"}, {"h", "g:/a"}, {"h:/a", "h:/b"}} {
		if res := renew(d...); res.Status != wire.StatusOK || res.Code != wire.OK {
			t.Errorf("renew of %v: %+v", d, res)
		}
	}
	for _, d := range [][]string{{"h:/z"}, {"h:/a", "h:/z"}, {"x"}} {
		if res := renew(d...); res.Status != wire.RenewLost || res.Reason != wire.ReasonMissingAlive || res.Path != d[len(d)-1] {
			t.Errorf("renew of %v: %+v", d, res)
		}
	}
	list := c.must(&wire.Request{Op: wire.OpListLocks, Owner: "a"})
	var paths []string
	for _, l := range list.List.Infos {
		paths = append(paths, l.Path)
	}
	if got := strings.Join(paths, " "); got != "g:/a/1 h:/a/1 h:/b/1 h:/c/1" {
		t.Errorf("listed: %s", got)
	}
	c.must(&wire.Request{Op: wire.OpReleaseAll, Owner: "a", Domains: []string{"h:/a", "g"}})
	if list := c.must(&wire.Request{Op: wire.OpListLocks, Owner: "a"}); len(list.List.Infos) != 2 {
		t.Errorf("after releasing two domains: %+v", list.List.Infos)
	}
	c.must(&wire.Request{Op: wire.OpRequestRevoke, Owner: "a"})
	if res := renew(); !res.Flag {
		t.Errorf("a revoked owner renews: %+v", res)
	}
	c.must(&wire.Request{Op: wire.OpForceRelease, Owner: "a"})
	if res := renew(); res.Status != wire.RenewLost {
		t.Errorf("a killed owner renews: %+v", res)
	}
	for _, m := range r.node.hosted() {
		if groups := m.find("a"); len(groups) != 0 {
			t.Errorf("a killed owner is still known in groups %v", groups)
		}
	}
}

// TestListingsPage walks all locks page by page.
func TestListingsPage(t *testing.T) { onBoth(t, testListingsPage) }

func testListingsPage(t *testing.T, r *rig) {
	c := r.session()
	for i := range 40 {
		c.must(write(fmt.Sprintf("o%d", i%3), fmt.Sprintf("h:/s%d/p%02d", i%5, i), time.Hour))
	}
	for _, page := range []uint32{1, 7, 8, 40, 512} {
		seen := make(map[string]bool)
		req := &wire.Request{Op: wire.OpDumpLocks, Page: page}
		for pages := 0; ; pages++ {
			res := c.must(req)
			for _, l := range res.List.Infos {
				if seen[l.Path] {
					t.Fatalf("page size %d: %s came twice", page, l.Path)
				}
				seen[l.Path] = true
			}
			if full := len(res.List.Infos) == int(page); full == res.Done {
				t.Fatalf("page size %d: a page of %d has done=%v", page, len(res.List.Infos), res.Done)
			}
			if res.Done {
				break
			}
			req.Cursor = res.List.Cursor
		}
		if len(seen) != 40 {
			t.Fatalf("page size %d: %d locks", page, len(seen))
		}
	}
	res := c.must(&wire.Request{Op: wire.OpScanLocks, Path: "h:/s3"})
	if len(res.List.Infos) != 8 || !res.Done {
		t.Fatalf("below h:/s3: %+v", res.List.Infos)
	}
	for _, cursor := range []string{"x", "\x01", "\x01\xff\xffx", "\x02\x00\x00"} {
		if res := c.ask(&wire.Request{Op: wire.OpDumpLocks, Cursor: []byte(cursor)}); res.Code != wire.InvalidArgument {
			t.Errorf("cursor %q: %+v", cursor, res)
		}
	}
}

// TestCycles follows wait edges (contract.md section 9).
func TestCycles(t *testing.T) { onBoth(t, testCycles) }

func testCycles(t *testing.T, r *rig) {
	c := r.session()
	edge := func(from, to string) {
		c.must(&wire.Request{Op: wire.OpSetWaitEdge, Owner: from, Blocker: to, TTLMillis: 3_600_000})
	}
	find := func(start string, depth uint32) string {
		res := c.must(&wire.Request{Op: wire.OpDetectCycle, Owner: start, Depth: depth})
		return fmt.Sprintf("%v%v", res.Cycle, res.List.Names)
	}
	check := func(start string, depth uint32, want string) {
		t.Helper()
		if got := find(start, depth); got != want {
			t.Errorf("from %s, depth %d: %s, want %s", start, depth, got, want)
		}
	}
	for _, o := range []string{"a", "b", "c", "d"} {
		c.must(write(o, "h:/"+o+"/x", time.Hour))
	}
	check("a", 10, "NONE[]")
	edge("a", "a")
	check("a", 10, "FOUND[a]")
	edge("a", "b")
	edge("b", "c")
	check("a", 10, "NONE[]")
	edge("c", "a")
	check("a", 10, "FOUND[a b c]")
	check("a", 1, "TRUNCATED[a b]")
	check("a", 0, "TRUNCATED[a]")
	edge("d", "a")
	check("d", 10, "FOUND[a b c]")
	c.must(release("b", "h:/b/x"))
	check("a", 10, "NONE[]") // who holds nothing blocks nobody
	// An edge with a path counts while that lock is in the way.
	c.must(&wire.Request{
		Op: wire.OpSetWaitEdge, Owner: "a", Blocker: "c", TTLMillis: 3_600_000,
		Path: "h:/c/x", Reason: wire.ReasonWriteLocked,
	})
	check("a", 10, "FOUND[a c]")
	c.must(release("c", "h:/c/x"))
	check("a", 10, "NONE[]")
}
