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
	base := simTops[n[1]%3] + "/y" // what it is to have for much of the rest
	var req *wire.Request
	bound := n[5]%4 == 0
	switch x := n[1] / 3 % 16; {
	case x < 3:
		req = &wire.Request{
			Op: wire.OpAcquire, Owner: owner, TTLMillis: sharedTTL(n[4]), Locks: []wire.LockRequest{{Path: base}}, Flags: wire.FlagNoQueue,
		}
	case x < 6:
		req = sharedAcquire(owner, base, n[2], n[4]/8)
	case x < 11:
		key := n[4] % 8
		req = sharedAcquire(owner, base, key*7919, key*104_729)
		req.Key = fmt.Sprint(owner, " ", key)
		// Others ask for the same about when its lease ends, or its wait.
		again := *req
		for range n[2] % 4 {
			c.w.after(time.Duration(req.TTLMillis)*time.Millisecond+c.w.between(-time.Second/2, time.Second/2), func() {
				if other := c.w.clients[n[3]/192%len(c.w.clients)]; !other.dead && len(other.open) <= 40 {
					again := again
					other.share(&again, false)
				}
			})
		}
	case x < 12: // many leases that end at once
		for i := range 5 + n[4]%40 {
			c.share(&wire.Request{
				Op: wire.OpAcquire, Owner: fmt.Sprint("shared ", i), TTLMillis: 700, Flags: wire.FlagNoQueue,
				Locks: []wire.LockRequest{{Path: fmt.Sprint(simTops[n[2]%len(simTops)], "/t/", i)}},
			}, false)
		}
		return
	case x < 13:
		req = &wire.Request{Op: wire.OpRelease, Owner: owner, Releases: []wire.ReleaseRequest{{Path: simPath(n[2])}}}
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
	req := &wire.Request{Op: wire.OpAcquire, Owner: owner, TTLMillis: sharedTTL(how), QueueTTLMillis: []uint64{500, 3000, 20_000}[how/3%3]}
	if req.Flags = []wire.Flags{0, wire.FlagWait, wire.FlagWait, wire.FlagNoQueue}[how/9%4]; req.Flags == wire.FlagNoQueue {
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
