package groups

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pathlockd/pathlockd/wire"
)

// Owners of the simulation that all clients use: what one of them waits for another asks for by its key, gives back, or
// has end. So no client knows what they hold, and what is held against what is, is what the nodes say among themselves:
// the replicas, the naive model, what the sessions have under way.

func sharedOwner(owner string) bool { return strings.HasPrefix(owner, "shared") }

// shares asks something for one of them. What a key asks for is always the same.
func (c *simClient) shares(n [6]int) {
	owner := fmt.Sprint("shared", n[1]%3)
	top := []string{"h:/w", "g:/w", "h:/a"}[n[1]%3] // in two of them nobody else is in their way
	base, queue := top+"/r", top+"/q"               // what it is to have for much of the rest, and what it waits for
	var req *wire.Request
	bound := n[5]%4 == 0
	take := &wire.Request{
		Op: wire.OpAcquire, Owner: owner, TTLMillis: sharedTTL(n[4] / 8), Locks: []wire.LockRequest{{Path: base}},
		Flags: wire.FlagNoQueue,
	}
	blocks := &wire.Request{
		Op: wire.OpAcquire, Owner: fmt.Sprint("shared", 3+n[4]%3), TTLMillis: []uint64{2000, 10_000}[n[4]/3%2],
		Locks: []wire.LockRequest{{Path: queue}}, Flags: wire.FlagNoQueue,
	}
	switch x := n[1] / 3 % 16; {
	case x < 2:
		req = take
	case x < 4:
		req = blocks
	case x < 7:
		req = sharedAcquire(owner, simTops[n[1]%3]+"/y", n[2], n[4]/8)
	case x < 11:
		if n[5]/4%2 == 0 {
			c.share(blocks, false)
			if n[2]/4%2 == 0 {
				c.many(top, take.TTLMillis, n[4]/32%40)
			}
			c.share(take, false)
		}
		key := n[4] % 8
		req = sharedAcquire(owner, base, key*7919, key*104_729)
		req.Key = fmt.Sprint(owner, " ", key)
		if key < 4 {
			req.Locks = []wire.LockRequest{{Path: base, State: wire.StateHeld}, {Path: queue}}
			req.Flags, req.QueueTTLMillis = wire.FlagWait, 20_000
		}
		// Others ask for the same about when the lease ends that it relies on.
		again := *req
		for range n[2] % 4 {
			c.w.after(time.Duration(take.TTLMillis)*time.Millisecond+c.w.between(-20*time.Millisecond,
				100*time.Millisecond), func() {
				if other := c.w.clients[n[3]/192%len(c.w.clients)]; !other.dead && len(other.open) <= 40 {
					again := again
					other.share(&again, false)
				}
			})
		}
	case x < 12: // many leases that end at once
		c.many(simTops[n[2]%len(simTops)], 700, 5+n[4]%40)
		return
	case x < 13:
		req = &wire.Request{Op: wire.OpRelease, Owner: owner,
			Releases: []wire.ReleaseRequest{{Path: []string{base, queue, simPath(n[2])}[n[5]%3]}}}
		if n[4]%2 == 0 {
			req.Releases[0].Mode = wire.ModeRead
		}
	case x < 14:
		req = &wire.Request{Op: wire.OpReleaseAll, Owner: owner}
	default: // its leases end soon, or late
		req = &wire.Request{Op: wire.OpRenew, Owner: owner, TTLMillis: sharedTTL(n[4])}
	}
	c.share(req, bound && req.Op == wire.OpAcquire)
}

// many has many owners take locks whose leases end at once.
func (c *simClient) many(top string, ttl uint64, many int) {
	for i := range many {
		c.share(&wire.Request{
			Op: wire.OpAcquire, Owner: fmt.Sprint("shared ", i), TTLMillis: ttl, Flags: wire.FlagNoQueue,
			Locks: []wire.LockRequest{{Path: fmt.Sprint(top, "/t/", i)}},
		}, false)
	}
}

// share asks for one of them, of which nothing is known from then on.
func (c *simClient) share(req *wire.Request, bound bool) {
	c.ask(req, bound)
	for h := range c.touches(req) {
		c.belief(h).dirty = never
	}
}

func sharedTTL(n int) uint64 { return []uint64{700, 700, 2000, 3_600_000}[n%4] }

// sharedAcquire is an acquire of one to three paths, of which the owner is to have some already.
func sharedAcquire(owner, base string, of, how int) *wire.Request {
	req := &wire.Request{Op: wire.OpAcquire, Owner: owner, TTLMillis: sharedTTL(how),
		QueueTTLMillis: []uint64{500, 3000, 20_000}[how/3%3]}
	if req.Flags = []wire.Flags{0, wire.FlagWait, wire.FlagWait,
		wire.FlagNoQueue}[how/9%4]; req.Flags == wire.FlagNoQueue {
		req.QueueTTLMillis = 0
	}
	add := func(l wire.LockRequest) {
		if !slices.ContainsFunc(req.Locks, func(have wire.LockRequest) bool { return have.Path == l.Path }) {
			req.Locks = append(req.Locks, l)
		}
	}
	if how/36%2 == 0 {
		add(wire.LockRequest{Path: base, State: wire.StateHeld})
	}
	for i := range 1 + how/72%2 {
		l := wire.LockRequest{Path: base[:len(base)-2] + simBelow[(of/8+i*(1+of/72%4))%len(simBelow)]}
		if how>>i%7 == 1 {
			l.State = wire.StateHeld
		}
		if how>>i%5 == 2 {
			l.Mode = wire.ModeRead
		}
		add(l)
	}
	return req
}
