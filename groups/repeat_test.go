package groups

import (
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
		case <-time.After(10 * time.Second):
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
