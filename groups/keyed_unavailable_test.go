package groups

import (
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// TestClaimOfNothing: a call with a key that is answered UNAVAILABLE, so that it surely was not carried out, and is
// asked again later with that key is about what there is then.
func TestClaimOfNothing(t *testing.T) {
	for _, op := range []wire.Op{wire.OpReleaseAll, wire.OpForceRelease} {
		t.Run(op.String(), func(t *testing.T) {
			t.Parallel()
			h := newHalted(t, time.Second)
			c := h.session()
			key := h.homed(h.node.logOf(h.node.groupOf(c.namespaceOf(h.other)))) // claimed in the log that proposes
			h.l.pauses(false)
			c.must(write("o", h.in, time.Hour))
			h.l.pauses(true)
			ask := func() *outcome {
				return c.start(h.next.Add(1), &wire.Request{Op: op, Owner: "o", Key: key})
			}
			switch res := ask().get(t, op.String()); res.Code {
			case wire.Unavailable:
			case wire.DeadlineExceeded:
				return // it is said that it may have been carried out
			default:
				t.Fatalf("it is answered %v %q", res.Code, res.Message)
			}
			h.l.pauses(false)
			c.must(write("o", h.other, time.Hour))
			if res := ask().get(t, op.String()); res.Code != wire.OK {
				t.Fatalf("asked again it is answered %v %q", res.Code, res.Message)
			}
			for _, path := range []string{h.in, h.other} {
				if owner := c.inspect(path).Owner; owner != "" {
					t.Errorf("%s was held before the only %v that was carried out, which is answered OK, and is "+
						"still held by %q", path, op, owner)
				}
			}
		})
	}
}
