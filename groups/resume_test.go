package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestCopyLeftBehind: a request about an owner that was asked again on a later connection,
// and answered, is not carried out by the copy that the earlier connection left behind, which
// looks for what to do only now.
func TestCopyLeftBehind(t *testing.T) {
	r := newRig(t, nil)
	holder := r.session()
	for _, req := range []*wire.Request{
		{Op: wire.OpForceRelease, Owner: "o"},
		{Op: wire.OpReleaseAll, Owner: "o"},
		{Op: wire.OpReleaseAll, Owner: "o", Domains: []string{"h:/a"}},
		{Op: wire.OpRenew, Owner: "o", TTLMillis: 1},
	} {
		c := r.session()
		first := c.session
		c.session = &wire.Session{ID: first.ID, Epoch: 2, Window: first.Window}
		id := r.next.Add(1)
		if res := c.start(id, req).get(t, "the repeat"); res.Code != wire.OK {
			t.Fatalf("%v is answered %+v", req.Op, res)
		}
		token := holder.must(write("o", "h:/a/x", time.Hour)).Token
		c.session = first
		if res := c.start(id, req).get(t, "the copy"); res.Code != wire.Aborted {
			t.Errorf("the copy of %v is answered %+v", req.Op, res)
		}
		time.Sleep(20 * time.Millisecond) // longer than the lease that a late renewal would leave
		if res := holder.must(write("o", "h:/a/x", time.Hour)); res.Token != token {
			t.Errorf("%v ended a lock that was taken after it was answered", req.Op)
		}
		holder.must(&wire.Request{Op: wire.OpReleaseAll, Owner: "o"})
	}
}
