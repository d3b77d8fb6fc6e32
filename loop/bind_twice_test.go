package loop_test

import (
	"sync/atomic"
	"testing"

	"github.com/pathlockd/pathlockd/groups"
	"github.com/pathlockd/pathlockd/wire"
)

// slowToRefuse is a handler that refuses a bind or an unbind once it was asked again, and the first after that: as
// the node does when the first waits for a log that has no leader, and there is no room for the second.
type slowToRefuse struct {
	*groups.Node
	first   *wire.Call
	refuses atomic.Bool
}

func (h *slowToRefuse) Serve(calls []*wire.Call) {
	for i, c := range calls {
		switch {
		case !h.refuses.Load() || c.Op != wire.OpBind && c.Op != wire.OpUnbind:
			h.Node.Serve(calls[i : i+1])
		case !c.Again:
			h.first = c
		default:
			for _, c := range []*wire.Call{c, h.first} {
				c.Res.Fail(wire.Errorf(wire.Unavailable, "nothing was done, try again"))
				c.To.Reply(c)
				c.To.Flush()
			}
		}
	}
}

// TestBindRefusedTwice: a bind or an unbind that is refused, and was while it was asked a second time, changes nothing.
func TestBindRefusedTwice(t *testing.T) {
	h := &slowToRefuse{Node: shared.get(t)}
	c := hangs(t, h, "twice")
	h.refuses.Store(true)
	id := uint64(1000)
	for _, req := range c.asks {
		id++
		c.ops[id] = req.Op
		c.send(append(wire.AppendRequest(nil, id, req), wire.AppendRequest(nil, id, req)...))
		for range 2 {
			if res := c.reply(id); res.Code != wire.Unavailable {
				t.Fatal(res.Err())
			}
			c.ops[id] = req.Op
		}
	}
	c.last = id
	c.endsSoon(t)
}
