package groups

import (
	"fmt"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// Owners of the simulation that are bound to a connection by a request of its own, and not by
// what takes their locks. Each client has one.

// simBond is what a bind or an unbind says of an owner, as the loop keeps it (loop/bind.go).
type simBond struct {
	id    uint64
	grace uint64
	off   bool
}

func (c *simClient) yoked() string { return fmt.Sprintf("o%dy", c.index) }

// yokes says that an owner is one that binds are about. What it holds is known no longer than
// its connection stands, bound or not.
func (c *simClient) yokes(owner string) bool { return owner == c.yoked() }

// bound asks something of the client's yoked owner. It polls for nothing: a bind does not reach
// places without a call.
func (c *simClient) bound(n [6]int) {
	if c.dead || len(c.open) > 40 {
		return
	}
	owner, path := c.yoked(), simPath(n[2])
	if n[4]%2 == 0 { // nobody else wants it
		path = fmt.Sprintf("y:/%d/%d", n[2]%3, c.index)
	}
	lock := []wire.LockRequest{{Path: path}}
	acquire := &wire.Request{Op: wire.OpAcquire, Owner: owner, TTLMillis: 3_600_000, Locks: lock,
		Flags: wire.FlagNoQueue}
	switch x := n[1] % 12; {
	case x < 4:
		c.ask(acquire, false)
		if n[5]%3 != 0 {
			c.bind(n[5]%2 == 0)
		}
	case x < 7:
		acquire.Flags, acquire.QueueTTLMillis = wire.FlagWait, uint64(500+n[5]%20_000)
		call := c.ask(acquire, false)
		if n[5]%2 == 0 {
			c.bind(false)
		}
		if n[5]%5 == 0 {
			c.w.after(time.Duration(n[5]%3000)*time.Millisecond, func() { c.cancel(call) })
		}
	case x < 9:
		c.bind(n[5]%2 == 0)
	case x < 10:
		c.yoke.id, c.yoke.conn = c.last+1, nil
		c.ask(&wire.Request{Op: wire.OpUnbind, Owner: owner}, false)
	default:
		c.ask(&wire.Request{Op: wire.OpRelease, Owner: owner, Releases: []wire.ReleaseRequest{{Path: path}}}, false)
	}
}

// bind binds the yoked owner to the connection, and perhaps renews its leases.
func (c *simClient) bind(renew bool) {
	req := &wire.Request{Op: wire.OpBind, Owner: c.yoked(), GraceMillis: c.grace}
	if renew {
		req.TTLMillis = 3_600_000
	}
	c.yoke.id, c.yoke.conn = c.last+1, nil
	c.ask(req, false)
}

// bond takes note of a bind or an unbind that arrives.
func (conn *simConn) bond(call *simCall) {
	owner := call.req.Owner
	bonds := conn.bonds[owner]
	off := call.req.Op == wire.OpUnbind
	switch {
	case !off && call.req.Op != wire.OpBind, off && len(bonds) == 0:
		return
	case slices.ContainsFunc(bonds, func(b simBond) bool { return b.id == call.id }):
		return
	case conn.bonds == nil:
		conn.bonds = make(map[string][]simBond)
	}
	conn.bonds[owner] = append(bonds, simBond{call.id, call.req.GraceMillis, off})
}

// bonded takes note of what became of it.
func (conn *simConn) bonded(call *simCall, code wire.Code) {
	bonds := conn.bonds[call.req.Owner]
	at := slices.IndexFunc(bonds, func(b simBond) bool { return b.id == call.id })
	switch {
	case at < 0 || call.req.Op != wire.OpBind && call.req.Op != wire.OpUnbind:
		return
	case code == wire.OK || code == wire.DeadlineExceeded:
		bonds = bonds[at:]
	default:
		bonds = slices.Delete(bonds, at, at+1)
	}
	if len(bonds) == 1 && bonds[0].off {
		bonds = nil
	}
	conn.bonds[call.req.Owner] = bonds
}

// outlived fails when a dead client's yoked owner, which was bound to the connection that ended
// with it, still holds something long after that.
func (k *checks) outlived(w *world, c *simClient, h holding, res *wire.Result) {
	if c.yokes(h.owner) && c.yoke.conn == c.conn && res.Owner == h.owner && h.mode == wire.ModeWrite {
		w.fail("%s holds %s, bound to a connection that closed long ago", h.owner, h.path)
	}
}
