package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestKeysMove: what was carried out with a key is not carried out again when its path has come
// to another group, however often that changes, and however much else was kept.
func TestKeysMove(t *testing.T) { onBoth(t, testKeysMove) }

func testKeysMove(t *testing.T, r *rig) {
	c := r.session()
	keyed := func(i int) *wire.Request {
		req := write(fmt.Sprint("o", i), fmt.Sprintf("h:/a/b/x%d", i), time.Hour)
		req.Key = fmt.Sprint("take", i)
		return req
	}
	let := func(i int) *wire.Request {
		req := release(fmt.Sprint("o", i), fmt.Sprintf("h:/a/b/x%d", i))
		req.Key = fmt.Sprint("let", i)
		return req
	}
	const many = 3000
	for from := 0; from < many; from += 200 {
		var outs []*outcome
		for i := from; i < from+200; i++ {
			outs = append(outs, c.start(r.next.Add(1), keyed(i)), c.start(r.next.Add(1), let(i)))
		}
		for i, o := range outs {
			if res := o.get(t, "a request"); res.Code != wire.OK || res.Status != wire.StatusOK {
				t.Fatalf("request %d is answered %+v", from+i, res)
			}
		}
	}
	for _, change := range []*wire.Request{
		setPolicy("h:/a/b", wire.RecursiveRW), setPolicy("h", wire.RecursiveRW), deletePolicy("h:/a/b"),
		deletePolicy("h"),
	} {
		c.must(change)
		for _, i := range []int{0, 1, many / 2, many - 1} {
			what := fmt.Sprintf("%v %s: %d", change.Op, change.Namespace, i)
			if res := c.ask(keyed(i)); res.Code != wire.OK || res.Status != wire.StatusLost {
				t.Errorf("%s: a repeat is answered %+v, want LOST", what, res)
			}
			c.must(write(fmt.Sprint("o", i), fmt.Sprintf("h:/a/b/x%d", i), time.Hour))
			c.must(let(i))
			if res := c.must(&wire.Request{Op: wire.OpInspectPath,
				Path: fmt.Sprintf("h:/a/b/x%d", i)}); res.Owner == "" {
				t.Errorf("%s: a repeated release lets go of what was taken since", what)
			}
			c.must(release(fmt.Sprint("o", i), fmt.Sprintf("h:/a/b/x%d", i)))
		}
	}
}

// TestReleasesOfAnAcquireMove: nor is an acquire with a key that takes nothing and has paths to
// release alone.
func TestReleasesOfAnAcquireMove(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	const path = "h:/a/b/x"
	lets := func() *wire.Request {
		return &wire.Request{
			Op: wire.OpAcquire, Owner: "o", TTLMillis: 3_600_000, Key: "k",
			Releases: []wire.ReleaseRequest{{Path: path}},
		}
	}
	repeated := func(when string) {
		t.Helper()
		c.must(write("o", path, time.Hour))
		c.must(lets())
		if owner := c.inspect(path).Owner; owner != "o" {
			t.Errorf("%s a repeat lets go of what was taken since", when)
		}
		c.must(release("o", path))
	}
	c.must(write("o", path, time.Hour))
	c.must(lets())
	if owner := c.inspect(path).Owner; owner != "" {
		t.Fatalf("held by %q", owner)
	}
	repeated("before a move")
	c.must(setPolicy("h:/a/b", wire.RecursiveRW))
	if r.node.groupOf("h:/a/b") == r.node.groupOf("h:/a") {
		t.Fatal("it stays in its group: choose another path")
	}
	repeated("after a move")
	c.must(deletePolicy("h:/a/b"))
	repeated("after it moved back")
}
