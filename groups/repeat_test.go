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
