package groups

import (
	"slices"

	"github.com/pathlockd/pathlockd/wire"
)

// What nodes of the simulation tell sessions of their leases: never that something is lost which its client knows to
// hold.

// hears has the node tell the connection's session of its leases. That takes no time: what it says is so by then, and
// may be late as it is.
func (conn *simConn) hears() {
	conn.deaf = conn.node.node.Tell(conn.session.ID, func(e *wire.LeaseEvent) {
		w, c := conn.c.w, conn.c
		if e.Kind == 0 {
			return
		}
		w.count.told++
		for h, b := range c.known {
			if h.owner != e.Owner || e.Kind == wire.EventRevoke || !b.certain() || !b.held || b.until <= w.now ||
				!c.lasts(b) {
				continue
			}
			if slices.Contains(e.Acquires, wire.AcquireMark(c.id, b.last)) {
				w.fail("client %d is told %v of %s, of what #%d took, and holds %s for certain", c.index, e.Kind,
					e.Owner, b.last, h.path)
			}
		}
	})
}
