package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestAdv8RepeatReachesFurther: a force_release (or release_all) without a key was carried out and its answer was lost with the
// connection; its owner then took a lock in another group, and the repeat, under the same id, ends that one too. contract.md
// section 11: "Without a key, native sessions repeat safely by request id"; PROTOCOL section 3: the server "carries out what it has
// not, and answers the rest as it did before"; "So a request needs no idempotency_key for its own session".
func TestAdv8RepeatReachesFurther(t *testing.T) {
	for _, op := range []wire.Op{wire.OpForceRelease, wire.OpReleaseAll} {
		t.Run(op.String(), func(t *testing.T) {
			r := newRig(t, nil)
			here, there := "h:/a", ""
			for i := 0; there == ""; i++ {
				if ns := fmt.Sprintf("h:/b%d", i); r.node.groupOf(ns) != r.node.groupOf(here) {
					there = ns
				}
			}
			c, victim := r.session(), r.session()
			victim.must(write("o", here+"/x", time.Hour))
			id := r.next.Add(1)
			ask := &wire.Request{Op: op, Owner: "o"}
			if res := c.start(id, ask).get(t, op.String()); res.Code != wire.OK { // the client does not get it
				t.Fatalf("%+v", res)
			}
			first := c.session
			r.node.Closed(first, false, false)
			token := victim.must(write("o", there+"/x", time.Hour)).Token
			c.session = &wire.Session{ID: first.ID, Epoch: 2, Window: first.Window, First: r.next.Add(1)}
			if res := c.start(id, &wire.Request{Op: op, Owner: "o"}).get(t, "the repeat"); res.Code != wire.OK {
				t.Fatalf("the repeat is answered %+v", res)
			}
			if owner := victim.inspect(there + "/x").Owner; owner != "o" {
				t.Errorf("the lock of token %d, taken when the first %v had been carried out and answered, is gone with its repeat", token, op)
			}
		})
	}
}
