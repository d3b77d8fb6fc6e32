package groups

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// apart answers namespaces of a handler, each in another group.
func (r *rig) apart(handler string, n int) (all []string) {
	seen := make(map[uint16]bool)
	for i := 0; len(all) < n; i++ {
		ns := fmt.Sprintf("%s:/s%d", handler, i)
		if g := r.node.groupOf(ns); !seen[g] {
			seen[g] = true
			all = append(all, ns)
		}
	}
	return all
}

// TestKeyedReleaseAllOnce: a repeat of a keyed request that goes to several groups touches
// nothing that its owner took since, wherever that lies.
func TestKeyedReleaseAllOnce(t *testing.T) { onBoth(t, testKeyedReleaseAllOnce) }

func testKeyedReleaseAllOnce(t *testing.T, r *rig) {
	ns := r.apart("h", 3)
	for name, req := range map[string]*wire.Request{
		"release_all":               {Op: wire.OpReleaseAll, Owner: "o", Key: "k1"},
		"release_all of domains":    {Op: wire.OpReleaseAll, Owner: "o", Key: "k2", Domains: []string{"h"}},
		"release_all and wait edge": {Op: wire.OpReleaseAll, Owner: "o", Key: "k3", DelWait: true},
		"force_release":             {Op: wire.OpForceRelease, Owner: "o", Key: "k4"},
		"release": {Op: wire.OpRelease, Owner: "o", Key: "k5", Releases: []wire.ReleaseRequest{
			{Path: ns[0] + "/x"}, {Path: ns[1] + "/x"}, {Path: ns[2] + "/x"}}},
	} {
		c, other := r.session(), r.session()
		c.must(write("o", ns[0]+"/x", time.Hour))
		c.must(write("o", ns[1]+"/x", time.Hour))
		c.must(req)
		c.must(write("o", ns[1]+"/x", time.Hour))
		c.must(write("o", ns[2]+"/x", time.Hour))
		for range 2 {
			again := *req
			other.must(&again)
			for _, path := range []string{ns[1] + "/x", ns[2] + "/x"} {
				if owner := c.inspect(path).Owner; owner != "o" {
					t.Errorf("%s: its repeat took %s away", name, path)
				}
			}
		}
		more := *req
		more.Owner = "another"
		if res := other.ask(&more); res.Code != wire.InvalidArgument {
			t.Errorf("%s: the key with another owner is answered %+v", name, res)
		}
		c.must(&wire.Request{Op: wire.OpReleaseAll, Owner: "o"})
	}
}

// TestKeyedKillOnce: a repeat of a keyed kill tells its victim nothing.
func TestKeyedKillOnce(t *testing.T) {
	r := newRig(t, nil)
	ns := r.apart("h", 2)
	var mu sync.Mutex
	kills := 0
	defer r.node.Tap(func(e engine.Event, _ wire.Position) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind == wire.EventKilled && e.Owner == "o" {
			kills++
		}
	}, func() {})()
	c := r.session()
	c.must(write("o", ns[0]+"/x", time.Hour))
	for range 3 {
		c.must(&wire.Request{Op: wire.OpForceRelease, Owner: "o", Key: "k"})
		c.must(write("o", ns[1]+"/x", time.Hour))
	}
	mu.Lock()
	defer mu.Unlock()
	if kills != 1 {
		t.Errorf("the victim was told %d times", kills)
	}
}

// TestKeyedRenewAgain: an identical renewal with the same key is carried out again, whatever
// its owner holds by now in the domains it names; another one with that key is refused.
func TestKeyedRenewAgain(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	hs := r.apart("h", 2)
	near := "" // a namespace of another handler in the group of the first
	for i := 0; near == ""; i++ {
		if ns := fmt.Sprintf("g:/s%d", i); r.node.groupOf(ns) == r.node.groupOf(hs[0]) {
			near = ns
		}
	}
	far := ""
	for i := 0; far == ""; i++ {
		if ns := fmt.Sprintf("g:/s%d", i); r.node.groupOf(ns) == r.node.groupOf(hs[1]) {
			far = ns
		}
	}
	c.must(write("o", hs[0]+"/x", time.Hour))
	c.must(write("o", far+"/x", time.Hour))
	renew := func(key string, ttl uint64, domains ...string) wire.Result {
		return r.session().ask(&wire.Request{Op: wire.OpRenew, Owner: "o", TTLMillis: ttl, Key: key, Domains: domains})
	}
	if res := renew("k", 60_000, "h", "g"); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Fatalf("%+v", res)
	}
	c.must(write("o", near+"/x", time.Hour))
	if res := renew("k", 60_000, "h", "g"); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Errorf("the same renewal again: %+v", res)
	}
	if res := renew("k", 60_000, "h", "i"); res.Code != wire.InvalidArgument {
		t.Errorf("another one with the same key: %+v", res)
	}
	if res := renew("l", 60_000, "h", "i"); res.Code != wire.OK || res.Status != wire.RenewLost {
		t.Errorf("one of nothing: %+v", res)
	}
	if res := renew("l", 60_000, "h", "g"); res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Errorf("what is LOST does not keep its key: %+v", res)
	}
}
