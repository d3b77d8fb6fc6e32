package groups

import (
	"encoding/binary"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// A request with an idempotency key that goes to several groups is claimed first, in the
// group that looks after the key: by what its client asks, and with the groups that it goes
// to. What is done in each of them has a key of its own that the claim scopes, and when all of
// it is done the claim says so. So a repeat does nothing once the first has answered, goes on
// where one was cut short, and never reaches a group that its owner came to since. Where
// namespaces are moved to meanwhile does not matter to it.
//
// Several may go on with a claim at once, in several sessions, and each may be slow. Each of them makes an attempt,
// which has a number: a group carries nothing out for one that comes behind a later one, and only the latest can have
// the claim done (engine's claimKey). One that is refused, or has no turn yet, gives way and looks again.
//
// A release of several paths is claimed also when they are in one namespace: at its repeat they may
// be in several, or the other way round. Its claim notes the namespace of each path. A path that is
// in another by now is not released any more: it was free when it came there, so what is held on it
// was taken since. So is it with the domains of a release_all.

// claim is a keyed request on its way, or one without a key.
type claim struct {
	key     string // of its parts, "" for none
	token   int64  // tells it from others of the key
	attempt uint64 // its number
	plan    []byte // what it is carried out on, as it was said first
	done    bool   // it was answered before
}

// claim has the call's key noted, if it has one, with what it is carried out on.
func (s *steps) claim(plan []byte) (c claim, err *wire.Error) {
	if s.req.Key == "" {
		return claim{plan: plan}, nil
	}
	kind := uint64(engine.ClaimBegins)
	if s.doubt != nil {
		kind = engine.ClaimGoesOn
	}
	s.claimed, s.done = true, false
	res := s.propose([]command{s.claiming(kind, &c, plan)})[0]
	if err := s.told([]wire.Result{res}); err != nil {
		return c, err
	}
	if s.doubt != nil && res.Token == 0 {
		return c, s.doubt
	}
	if res.Status == wire.StatusQueued && res.Count == 0 && s.c.Op != wire.OpRenew { // a renewal takes no turns
		return c, errSuperseded
	}
	if res.List != nil {
		c.plan = res.List.Cursor
	}
	c.token, c.done, c.attempt = res.Token, res.Status == wire.StatusOK, res.Count
	c.key = engine.PartKey(s.c.Op, s.req.Key, c.token, c.attempt)
	s.done = c.done
	if at := s.n.cfg.seams; at != nil && at.claimed != nil {
		at.claimed()
	}
	return c, nil
}

// errSuperseded says that another attempt goes on with the claim.
var errSuperseded = wire.Errorf(wire.Unavailable, "another repeat of the request goes on with it")

// giveWay waits before the call looks again at a claim that another attempt goes on with, longer each time, and takes
// note of how long its own took, which began at a time: another one will take as long. It does not wait for more than
// half of the time that is left, and reports whether there is any.
func (s *steps) giveWay(began time.Duration) bool {
	left := s.left()
	if left < 2*firstPause {
		return false
	}
	pause := min(firstPause<<min(s.gaveWay, 6), left/2)
	s.gaveWay++
	s.took = max(s.took, s.n.clock.Mono()-began)
	return s.n.tasks.wait(pause, s.n.stop) != 0
}

// firstPause is the shortest time of giveWay.
const firstPause = 10 * time.Millisecond

// ends notes that all of a claim is done, unless there was an error; and then, in the same log, that all of the call
// is, which may be repeated under its id when its key is not known any more. Who finds that does not look at the
// claim.
func (s *steps) ends(c claim, err *wire.Error) *wire.Error {
	if err != nil || c.key == "" {
		return err
	}
	res := s.propose([]command{s.claiming(engine.ClaimDone, &c, nil)})[0]
	switch err := res.Err(); {
	case err != nil:
		return err
	case res.Status != wire.StatusOK:
		return errSuperseded
	}
	return s.whole(s.keyGroup())
}

// yields lets another attempt begin when the call has come to nothing: nobody is to wait for its turn to be over, which
// it may have without having heard of it. The call is answered meanwhile.
func (s *steps) yields() {
	if !s.claimed || s.done || s.c.Op == wire.OpRenew {
		return
	}
	c := &wire.Call{Op: s.c.Op, ID: s.c.ID, Session: s.c.Session, Settled: s.c.Settled, Again: s.c.Again}
	late := steps{n: s.n, c: c, req: s.req, since: s.n.clock.Mono(), came: s.came}
	s.n.tasks.run(func() { late.propose([]command{late.claiming(engine.ClaimYields, new(claim), nil)}) })
}

// claims says that the call is known by its key, and by its id where that is claimed.
func (s *steps) claims() bool {
	switch s.c.Op {
	case wire.OpRelease, wire.OpReleaseAll, wire.OpForceRelease:
		return s.req.Key != ""
	}
	return false
}

// keyGroup is the group that looks after the call's key.
func (s *steps) keyGroup() uint16 { return wire.HomeOf(s.req.Key, s.n.cfg.GroupCount) }

// drops has a claim forgotten.
func (s *steps) drops(c claim) *wire.Error {
	if c.key == "" {
		return nil
	}
	return s.all([]command{s.claiming(engine.ClaimDrops, &c, nil)})
}

// claiming is the command that is a step of the call's claim, as far as that is known.
func (s *steps) claiming(kind uint64, c *claim, plan []byte) command {
	req := &wire.Request{
		Op: wire.OpClaim, Key: s.req.Key, Target: uint64(s.c.Op), Attempt: engine.HashOf(s.req), Kinds: kind,
		Cursor: plan, Token: c.token, GraceMillis: c.attempt,
	}
	sub := uint64(1 << 33)
	if engine.Joins(req) { // to begin and to go on are one thing to who repeats the call
		req.GraceMillis, req.TTLMillis = uint64(s.took.Milliseconds()), uint64(max(1, s.left().Milliseconds()))
	} else {
		sub += kind
	}
	return command{group: s.keyGroup(), sub: sub, req: req}
}

// nsBytes is how much of a claim's plan says in which namespace a path is.
const nsBytes = 8

// appendNS adds a namespace to the plan of a release.
func appendNS(plan []byte, ns string) []byte {
	return binary.BigEndian.AppendUint64(plan, xxh3.HashString(ns))
}

// stays says that a path or a domain, the one at a place in the request, is in the namespace that it was in first.
func (c *claim) stays(at int, ns string) bool {
	plan := c.plan[min(at*nsBytes, len(c.plan)):]
	return len(plan) >= nsBytes && binary.BigEndian.Uint64(plan) == xxh3.HashString(ns)
}

// groupList is groups as a claim has them.
func groupList(groups []uint16) (list []byte) {
	for _, g := range groups {
		list = binary.BigEndian.AppendUint16(list, g)
	}
	return list
}

func groupsOfList(list []byte) (groups []uint16) {
	for ; len(list) >= 2; list = list[2:] {
		groups = append(groups, binary.BigEndian.Uint16(list))
	}
	return groups
}
