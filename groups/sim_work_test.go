package groups

import (
	"fmt"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// What clients of the simulation ask.

// Names of the simulation: few, so that much meets.
var (
	simRoots = []string{"h:/a/b", "h:/a/b/c", "h:/b", "h:/a/b/a", "g:/x/y"}
	simTops  = []string{"h:/a", "h:/a", "h:/b", "g:/x"}
	simBelow = []string{"", "/b", "/b/c", "/b/c/d", "/b/a", "/y", "/y/z", "/c", "/b/a/e"}
)

func simPath(n int) string { return simTops[n%len(simTops)] + simBelow[n/8%len(simBelow)] }

func (c *simClient) owner(n int) string { return fmt.Sprintf("o%d%c", c.index, 'a'+n%3) }

// tiedOwner is the client's owner whose leases are tied to its connection.
func (c *simClient) tiedOwner() string { return fmt.Sprintf("o%dz", c.index) }

// some asks something.
func (c *simClient) some(n [6]int) {
	if c.dead || len(c.open) > 40 {
		return
	}
	w := c.w
	owner, path := c.owner(n[1]), simPath(n[2])
	mode := wire.ModeWrite
	if n[3]%4 == 0 {
		mode = wire.ModeRead
	}
	ttl := []uint64{3_600_000, 3_600_000, 3_600_000, 5_000, 20_000}[n[4]%5]
	bound := n[5]%9 == 0
	if bound { // a lease that is tied is all of its owner's in the namespace
		owner = c.tiedOwner()
	}
	lock := []wire.LockRequest{{Path: path, Mode: mode}}
	acquire := &wire.Request{Op: wire.OpAcquire, Owner: owner, TTLMillis: ttl, Locks: lock, Flags: wire.FlagNoQueue}
	if bound {
		acquire.Flags |= wire.FlagBind
	}
	switch x := n[3] / 4 % 24; {
	case x < 7:
		c.ask(acquire, bound)
	case x < 9: // poll
		acquire.Flags &^= wire.FlagNoQueue
		acquire.QueueTTLMillis = uint64(1000 + n[5]%20_000)
		c.ask(acquire, bound)
	case x < 12: // wait
		acquire.Flags = acquire.Flags&^wire.FlagNoQueue | wire.FlagWait
		acquire.QueueTTLMillis = uint64(500 + n[5]%20_000)
		if n[5]/20_000%8 == 0 { // minutes
			acquire.QueueTTLMillis *= 12
		}
		call := c.ask(acquire, bound)
		if n[4]/5%3 == 0 {
			w.after(time.Duration(n[4]%3000)*time.Millisecond, func() { c.cancel(call) })
		}
	case x < 17:
		c.ask(&wire.Request{Op: wire.OpRelease, Owner: owner,
			Releases: []wire.ReleaseRequest{{Path: path, Mode: mode}}}, false)
	case x < 18:
		key := ""
		if n[4]%3 == 0 {
			key = fmt.Sprint("k", n[5]%20, owner)
		}
		c.ask(&wire.Request{Op: wire.OpReleaseAll, Owner: owner, Key: key}, false)
		if key != "" {
			for h := range c.known { // what a repeat of the key does is not told by its answer
				if h.owner == owner {
					c.belief(h).dirty = never
				}
			}
		}
	case x < 20:
		c.ask(&wire.Request{Op: wire.OpRenew, Owner: owner, TTLMillis: 3_600_000}, false)
	case x < 21 && n[1]/3%3 == 0: // somebody is asked to let go, and need not
		other := w.clients[n[4]%len(w.clients)]
		victim := other.owner(n[5])
		if n[1]/9%2 == 0 {
			victim = other.tiedOwner()
		}
		c.ask(&wire.Request{Op: wire.OpRequestRevoke, Owner: victim}, false)
	case x < 21:
		victim := w.clients[n[4]%len(w.clients)].owner(n[5])
		req := &wire.Request{Op: wire.OpForceRelease, Owner: victim}
		w.disturb(req, false)
		c.ask(req, false)
	case x < 23:
		c.ask(&wire.Request{Op: wire.OpInspectPath, Path: path}, false)
	default:
		if w.forgetful() && n[5]%2 == 0 { // replicas tell whether they agree on it
			c.ask(&wire.Request{Op: wire.OpIncrToken, Key: fmt.Sprint("n", n[4]%6)}, false)
			return
		}
		call := c.ask(&wire.Request{Op: wire.OpIncrToken}, false)
		call.highest = map[string]int64{"counter": w.check.counter}
	}
}

// cancel ends a wait.
func (c *simClient) cancel(call *simCall) {
	conn := c.conn
	if c.open[call.id] != call || conn == nil || conn.gone {
		return
	}
	c.w.note("client %d cancels #%d", c.index, call.id)
	call.ended = true
	conn.arrives = max(conn.arrives, c.w.now+c.w.between(20*time.Microsecond, 500*time.Microsecond))
	c.w.at(conn.arrives, func() {
		conn.node.awake(func() {
			if !conn.closed && conn.node.node != nil && conn.node.life == conn.life {
				conn.node.node.Cancel(conn.session, call.id)
			}
		})
	})
}

// pipeline asks several things at once, whose order counts.
func (c *simClient) pipeline(n [6]int) {
	if c.dead || len(c.open) > 40 {
		return
	}
	owner, path := c.owner(n[1]), simPath(n[2])
	if n[5]%2 == 0 {
		c.swaps(owner, n)
		return
	}
	for i := range 1 + n[3]%3 {
		c.ask(&wire.Request{
			Op: wire.OpAcquire, Owner: owner, TTLMillis: 3_600_000, Locks: []wire.LockRequest{{Path: path}},
			Flags: wire.FlagNoQueue,
		}, false)
		if i > 0 || n[4]%2 == 0 {
			c.ask(&wire.Request{Op: wire.OpRelease, Owner: owner, Releases: []wire.ReleaseRequest{{Path: path}}}, false)
		}
	}
}

// crowd has many owners take locks for a while.
func (c *simClient) crowd(n [6]int) {
	if c.dead {
		return
	}
	many := 100 + n[1]%900
	if n[2]%32 == 0 {
		many = 10_000
	}
	for i := range many {
		c.ask(&wire.Request{
			Op: wire.OpAcquire, Owner: fmt.Sprintf("crowd%d.%d", c.index, i), TTLMillis: 3000,
			Locks: []wire.LockRequest{{Path: fmt.Sprintf("crowd:/%d/%d", i%7, i)}}, Flags: wire.FlagNoQueue,
		}, false)
	}
}

// swaps takes and gives back a few paths of one namespace in acquires with releases, one behind the other.
func (c *simClient) swaps(owner string, n [6]int) {
	top := simTops[n[2]%len(simTops)]
	x := n[4]
	for range 2 + n[3]%5 {
		one, two := top+simBelow[x%4*2], top+simBelow[x/4%4*2+1]
		if x/16%2 == 0 {
			one, two = two, one
		}
		switch x / 32 % 4 {
		case 0:
			c.take(owner, one)
		case 1:
			c.ask(&wire.Request{Op: wire.OpRelease, Owner: owner, Releases: []wire.ReleaseRequest{{Path: one}}}, false)
		case 2:
			c.ask(&wire.Request{Op: wire.OpRelease, Owner: owner, Releases: []wire.ReleaseRequest{{Path: one},
				{Path: two}}}, false)
		default:
			c.ask(&wire.Request{
				Op: wire.OpAcquire, Owner: owner, TTLMillis: 3_600_000, Locks: []wire.LockRequest{{Path: one}},
				Flags:    wire.FlagNoQueue,
				Releases: []wire.ReleaseRequest{{Path: two}},
			}, false)
		}
		x = (x*48271 + 7) & 0x7fffffff
	}
}
