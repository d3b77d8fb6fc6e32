package groups

import (
	"slices"
	"strings"

	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// cycle follows wait edges from an owner (contract.md section 9).
func (s *steps) cycle() (res wire.Result, err *wire.Error) {
	if err := s.caughtUp(); err != nil {
		return res, err
	}
	depth := int(min(s.req.Depth, wire.MaxCycleDepth))
	chain := []string{strings.Clone(s.req.Owner)} // an answer outlives the request's body
	res.List = new(wire.List)
	for range depth + 1 {
		next, ok, err := s.waitsFor(chain[len(chain)-1])
		if err != nil || !ok {
			return res, err
		}
		if i := slices.Index(chain, next); i >= 0 {
			res.Cycle, res.List.Names = wire.CycleFound, chain[i:]
			return res, nil
		}
		chain = append(chain, next)
	}
	res.Cycle, res.List.Names = wire.CycleTruncated, chain[:depth+1]
	return res, nil
}

// waitsFor answers whom an owner waits for, by its wait edge, if that counts: if
// what it names still blocks.
func (s *steps) waitsFor(owner string) (blocker string, ok bool, err *wire.Error) {
	e := s.ask(&replica.Query{What: replica.AskEdge, Group: wire.HomeOf(owner, s.n.cfg.GroupCount), Owner: owner})
	switch {
	case e.Code != wire.OK || !e.Flag:
		return "", false, e.Err()
	case e.Path == "":
		alive, err := s.any(replica.AskAlive, e.Owner, nil)
		if err == nil && !alive {
			alive, err = s.any(replica.AskWaits, e.Owner, nil)
		}
		return e.Owner, alive, err
	}
	s.routes = s.n.routes.Load()
	ns := s.routes.Resolve(e.Path)
	b := s.ask(&replica.Query{
		What: replica.AskBlocking, Group: s.n.groupOf(ns), Version: s.version(), NS: ns, Path: e.Path, Owner: e.Owner,
		Reason: e.Reason,
	})
	return e.Owner, b.Flag, s.told([]wire.Result{b})
}
