package lab

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pathlockd/pathlockd/bench/lab/history"
	"github.com/pathlockd/pathlockd/bench/session"
	"github.com/pathlockd/pathlockd/wire"
)

const (
	// sits is how long the leases are that sitters take: long beside what the checker
	// forgives (check.checkLeases), so that a clock that goes slow is seen.
	sits = 6 * time.Second
	// sitsWithin is how long a sitter looks for the end of one.
	sitsWithin = 3 * sits
	// glances is how often it looks.
	glances = 100 * time.Millisecond
)

// sit takes a lease that nobody wants, in a log that it keeps busy with one request after
// the other, and looks when it ends: leases end in time where there is much to do, too.
// Until it has asked for the lease nothing is known of what it does, and what keeps the log
// busy is not written down: it takes and gives back what nobody else asks for.
func (e *episode) sit(number int) {
	s := &e.spaces[len(e.spaces)-1]
	c := &client{e: e, number: number, s: session.New()}
	defer c.hangUp()
	for n := 0; !e.settling(); n++ {
		c.node = n % e.cluster.Nodes()
		c.hangUp()
		c.owner = fmt.Sprintf("s%d.%d.%d", e.number, number, n)
		c.turn = turn{space: len(e.spaces) - 1, style: once,
			paths: []string{fmt.Sprintf("%s/%d.%d", s.name, number, n)}, ttl: sits, queueTTL: sits}
		if !c.acquire() {
			c.pause(breath)
			continue
		}
		for until := e.rec.Now() + sitsWithin; e.rec.Now() < until; {
			if got := c.look(c.turn.paths[0]); got.Outcome == history.Answered && !held(got, c.owner) {
				break
			}
			if e.ctx.Err() != nil {
				return
			}
			c.bustle(glances)
		}
	}
}

func held(o *history.Op, owner string) bool {
	return slices.ContainsFunc(o.Holders, func(h history.Holder) bool { return h.Owner == owner })
}

// bustle makes one request after the other, with pauses that are as long as they took, for
// a while or until one is not answered.
func (c *client) bustle(d time.Duration) {
	ctx, cancel := context.WithTimeout(c.e.ctx, d)
	defer cancel()
	owner, path := "bustle."+c.owner, c.turn.paths[0]+".bustle"
	take := &wire.Request{Op: wire.OpAcquire, Owner: owner, TTLMillis: 1000, Flags: wire.FlagNoQueue,
		Locks: []wire.LockRequest{{Path: path}}}
	free := &wire.Request{Op: wire.OpRelease, Owner: owner, Releases: []wire.ReleaseRequest{{Path: path}}}
	s := session.New()
	conn, err := c.e.cluster.Dial(ctx, c.node, s)
	if err != nil {
		c.pause(d)
		return
	}
	defer conn.Close()
	for n := 0; err == nil; n++ {
		began := time.Now()
		_, err = conn.Ask(ctx, s.Next(), []*wire.Request{take, free}[n%2], nil)
		time.Sleep(time.Since(began))
	}
}
