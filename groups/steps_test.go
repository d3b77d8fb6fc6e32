package groups

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

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
		if res := renew(d...); res.Status != wire.RenewLost || res.Reason != wire.ReasonMissingAlive ||
			res.Path != d[len(d)-1] {
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
		if groups, _ := m.Find("a"); len(groups) != 0 {
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

// TestAGroupListsNoMoreThanAPage: a page of an owner's locks is all that a group looks at and tells, which
// may be asked over the link, and not everything from the first or to the last.
func TestAGroupListsNoMoreThanAPage(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	const locks, page = 20, 3
	for i := range locks {
		c.must(write("a", fmt.Sprintf("h:/n/%02d", i), time.Hour))
	}
	q := &replica.Query{What: replica.AskList, Group: r.node.groupOf("h:/n"), Version: replica.AnyVersion,
		Owner: "a", Page: page}
	for _, after := range []int{-1, 0, 10, locks - page - 1} {
		if q.After = ""; after >= 0 {
			q.After = string(replica.AppendPlace(nil, &wire.LockInfo{Path: fmt.Sprintf("h:/n/%02d", after)}))
		}
		res := r.node.logOf(q.Group).own().Answer(q)
		if !res.Flag || len(res.List.Infos) != page || res.List.Infos[0].Path != fmt.Sprintf("h:/n/%02d", after+1) {
			t.Errorf("after lock %d: %+v", after, res.List.Infos)
		}
	}
}

// TestListPages: an owner's locks in pages are those in one answer, each once.
func TestListPages(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	for i := range 7 {
		c.must(write("a", fmt.Sprintf("h:/n%d/x", i), time.Hour))
		shared := write("a", fmt.Sprintf("h:/n%d/x", i), time.Hour)
		shared.Locks[0].Mode = wire.ModeRead
		c.must(shared)
	}
	all := c.must(&wire.Request{Op: wire.OpListLocks, Owner: "a"})
	if len(all.List.Infos) != 14 || !all.Done {
		t.Fatalf("%d locks, done %v", len(all.List.Infos), all.Done)
	}
	for page := range uint32(15) {
		var got []string
		req := &wire.Request{Op: wire.OpListLocks, Owner: "a", Page: page + 1}
		for done := false; !done; {
			res := c.must(req)
			for _, l := range res.List.Infos {
				got = append(got, fmt.Sprint(l.Path, l.Mode))
			}
			if done = res.Done; len(res.List.Infos) > int(page)+1 || !done && len(res.List.Infos) <= int(page) {
				t.Fatalf("a page of %d has %d", page+1, len(res.List.Infos))
			}
			req.Cursor = res.List.Cursor
		}
		for i, l := range all.List.Infos {
			if len(got) != 14 || got[i] != fmt.Sprint(l.Path, l.Mode) {
				t.Fatalf("pages of %d: %q", page+1, got)
			}
		}
	}
	if res := c.ask(&wire.Request{Op: wire.OpListLocks, Owner: "a", Page: 1,
		Cursor: []byte("nonsense")}); res.Code != wire.InvalidArgument {
		t.Errorf("a cursor that is none: %v", res.Err())
	}
}
