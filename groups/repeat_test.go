package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestGrantMeetsRepeat lets a grant and the repeat of the waiting acquire that it
// is for meet on the way, again and again: the repeat is answered once, and is
// granted.
func TestGrantMeetsRepeat(t *testing.T) { onBoth(t, testGrantMeetsRepeat) }

func testGrantMeetsRepeat(t *testing.T, r *rig) {
	a := r.session()
	for round := range 200 {
		b := r.session()
		a.must(write("a", "h:/q/x", time.Hour))
		id, req := r.next.Add(1), waiting(write("b", "h:/q/x", time.Hour))
		<-b.start(id, req).queued
		b.session.Epoch++
		freed := a.start(r.next.Add(1), release("a", "h:/q/x"))
		o := b.start(id, req)
		<-freed.done
		select {
		case res := <-o.done:
			if res.Code != wire.OK || res.Status != wire.StatusOK {
				t.Fatalf("round %d: the repeat is answered %+v", round, res)
			}
		case <-time.After(patience):
			t.Fatalf("round %d: the repeat is not answered", round)
		}
		b.must(release("b", "h:/q/x"))
		select {
		case res := <-o.done:
			t.Fatalf("round %d: the repeat is answered again: %+v", round, res)
		default:
		}
	}
}

// TestLostStaysLost: an acquire that was granted, and whose lock is gone, is answered LOST
// however often it is repeated, and never carried out again.
func TestLostStaysLost(t *testing.T) { onBoth(t, testLostStaysLost) }

func testLostStaysLost(t *testing.T, r *rig) {
	c, other := r.session(), r.session()
	id, req := r.next.Add(1), write("a", "h:/q/x", time.Hour)
	if res := <-c.start(id, req).done; res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Fatalf("the acquire is answered %+v", res)
	}
	other.must(&wire.Request{Op: wire.OpForceRelease, Owner: "a"})
	for again := range 4 {
		if res := <-c.start(id, req).done; res.Code != wire.OK || res.Status != wire.StatusLost {
			t.Fatalf("repeat %d is answered %+v, and its lock is gone", again, res)
		}
	}
	if res := other.inspect("h:/q/x"); res.Owner != "" {
		t.Fatalf("%q holds what it acquired once, and lost", res.Owner)
	}
}

// TestRenewalIsRepeated: a renewal in several domains is the same request when one of the
// leases is gone at its repeat.
func TestRenewalIsRepeated(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	a, b := "h:/a0", ""
	for i := 0; b == ""; i++ {
		if ns := fmt.Sprintf("g:/b%d", i); r.node.groupOf(ns) == r.node.groupOf(a) {
			b = ns
		}
	}
	c.must(write("o", a+"/x", time.Hour))
	c.must(write("o", b+"/x", time.Hour))
	id := r.next.Add(1)
	renew := &wire.Request{Op: wire.OpRenew, Owner: "o", TTLMillis: 3_600_000, Domains: []string{a, b}}
	if res := <-c.start(id, renew).done; res.Code != wire.OK || res.Status != wire.StatusOK {
		t.Fatalf("the renewal is answered %+v", res)
	}
	r.session().must(release("o", b+"/x"))
	c.session = later(c.session)
	if res := <-c.start(id, renew).done; res.Code != wire.OK || res.Status != wire.RenewLost || res.Path != b {
		t.Errorf("the repeat is answered %+v, want LOST %s", res, b)
	}
}

// TestReleaseInSeveralIsRepeated: a release of paths in several namespaces is the same request
// when there are more of these at its repeat.
func TestReleaseInSeveralIsRepeated(t *testing.T) {
	r := newRig(t, nil)
	c := r.session()
	id, rel := r.next.Add(1), release("o", "h:/a/b/x")
	rel.Releases = append(rel.Releases, wire.ReleaseRequest{Path: "h:/a/y"}, wire.ReleaseRequest{Path: "g:/p/z"})
	if res := <-c.start(id, rel).done; res.Code != wire.OK {
		t.Fatalf("the release is answered %+v", res)
	}
	r.session().must(setPolicy("h:/a/b", wire.RecursiveRW))
	c.session = later(c.session)
	if res := <-c.start(id, rel).done; res.Code != wire.OK {
		t.Errorf("the repeat is answered %+v", res)
	}
}
