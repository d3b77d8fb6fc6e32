package groups

import (
	"fmt"
	"testing"
	"time"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// TestNoRoomForAPart: a keyed request is carried out in one group; another has no room for its key. It is answered
// that it was carried out in part, and is to be repeated with its key or its id. When there is room it is repeated
// under its id, which its session has gone beyond there: all of it is carried out.
func TestNoRoomForAPart(t *testing.T) {
	for _, op := range claimedOps {
		t.Run(op.String(), func(t *testing.T) {
			k := newKeyedOver(t, op, func(c *Config) {
				briefKeys(c)
				c.stated = func(l *replica.Limits) { l.KeptMillis = 6000; l.MaxKept = 8 }
				c.RequestTimeout = 2 * time.Second
			})
			c := k.session()
			ns := k.there[:len(k.there)-2]
			for i := range 2 {
				req := write("p", fmt.Sprint(ns, "/p", i), time.Hour)
				req.Key = fmt.Sprint("p", i)
				c.must(req)
			}
			pass := func(n int) {
				for range n { // in both logs
					k.clock.hurry(500 * time.Millisecond)
					k.other.must(write("else", k.ns+"/else", time.Hour))
					c.must(write("p", ns+"/p0", time.Hour))
				}
			}
			pass(9)
			id := k.next.Add(1)
			res := c.start(id, k.request()).get(t, "the first")
			if res.Code != wire.DeadlineExceeded {
				t.Fatalf("the first is answered %v %s", res.Code, res.Message)
			}
			pass(5)
			again := func(c *wire.Call) { c.Again = true }
			res = c.startAs(id, k.request(), again).get(t, "the same id again")
			if res.Code != wire.OK || k.held(k.there) {
				t.Errorf("the same id again is answered %v %s, held %v", res.Code, res.Message, k.held(k.there))
			}
		})
	}
}
