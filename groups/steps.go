package groups

import (
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/wire"
)

// Calls that are not one command in one group are carried out in steps, each on a
// goroutine of its own: what spans namespaces, what is about an owner wherever it
// is, listings, cycles. In each namespace such a call is linearizable; that it
// spans them is not one instant.

// maxStepped is how many calls are carried out in steps at once; over it they are
// refused.
const maxStepped = 4096

// stepped carries a call out in steps.
func (n *Node) stepped(c *wire.Call, since time.Duration) *wire.Error {
	select {
	case n.slow <- struct{}{}:
	default:
		return wire.Errorf(wire.Unavailable, "%d calls that span groups are under way, no more are taken; nothing was done, try again", maxStepped)
	}
	go func() {
		s := steps{n: n, c: c, since: since, req: new(wire.Request)}
		err := wire.DecodeArgs(c.Op, c.Body, c.NArgs, s.req)
		var res wire.Result
		if err == nil {
			res, err = s.run()
		}
		<-n.slow
		if err != nil {
			res.Fail(err)
		}
		finish(c, &res)
	}()
	return nil
}

// steps is one such call.
type steps struct {
	n     *Node
	c     *wire.Call
	req   *wire.Request // its own copy
	since time.Duration
	own   map[uint64]*machine // by log: the replicas that are up to date since caughtUp
	only  map[uint64]bool     // the logs of groups that the call has to do with, nil for all
}

func (s *steps) run() (wire.Result, *wire.Error) {
	if administers(s.c.Op) {
		return s.administer()
	}
	switch s.c.Op {
	case wire.OpRelease:
		return s.release()
	case wire.OpReleaseAll:
		return s.releaseAll()
	case wire.OpRenew, wire.OpBind:
		return s.renew()
	case wire.OpUnbind:
		return wire.Result{}, s.everywhere(&wire.Request{Op: wire.OpUnbind, Owner: s.req.Owner})
	case wire.OpForceRelease:
		return s.forceRelease()
	case wire.OpRequestRevoke:
		return s.revoke()
	case wire.OpAssertFencing:
		return s.assert()
	case wire.OpDetectCycle:
		return s.cycle()
	case wire.OpIsOwnerAlive:
		return s.alive()
	case wire.OpListLocks:
		return s.list()
	case wire.OpDumpLocks, wire.OpScanLocks:
		return s.scan()
	case wire.OpBackupOpen:
		return s.backupOpen()
	case wire.OpBackupRead:
		return s.backupRead()
	case wire.OpBackupClose:
		return s.backupClose()
	case wire.OpHealth:
		return s.n.health(), nil
	}
	return wire.Result{}, wire.Errorf(wire.Unimplemented, "op %d: not known to this server", s.c.Op)
}

// command is a request to one group, as part of a call.
type command struct {
	group uint16
	ns    string
	sub   uint64
	req   *wire.Request
}

// propose carries commands out, in their groups' logs, all at once, and answers
// their results in the same order.
func (s *steps) propose(cmds []command) []wire.Result {
	results := make([]wire.Result, len(cmds))
	var logs touched
	var wait sync.WaitGroup
	for i := range cmds {
		cmd := &cmds[i]
		if err := s.n.admit(cmd.group); err != nil {
			results[i].Fail(err)
			continue
		}
		body, nargs := wire.AppendArgs(nil, cmd.req)
		wait.Add(1)
		p := &part{
			group: cmd.group, op: cmd.req.Op, nargs: nargs, body: body, nsLen: len(cmd.ns),
			version: s.n.routes.Load().Version, session: s.c.Session, id: s.c.ID, sub: cmd.sub | 1<<63,
			bound: s.c.Bound, grace: s.c.Grace, since: s.since, counted: true,
		}
		p.done = func(_ *part, res *wire.Result) {
			results[i] = *res
			wait.Done()
		}
		l := s.n.logOf(cmd.group)
		l.push(p)
		logs.add(l)
	}
	logs.start()
	wait.Wait()
	return results
}

// all is propose for commands that must all succeed.
func (s *steps) all(cmds []command) *wire.Error {
	for _, res := range s.propose(cmds) {
		if err := res.Err(); err != nil {
			return err
		}
	}
	return nil
}

// everywhere sends a request to every group in which its owner has a standing.
func (s *steps) everywhere(req *wire.Request) *wire.Error {
	if err := s.caughtUp(); err != nil {
		return err
	}
	present, err := s.find(req.Owner)
	if err != nil {
		return err
	}
	var cmds []command
	for _, g := range present {
		cmds = append(cmds, command{group: g, sub: uint64(g) + 1, req: req})
	}
	return s.all(cmds)
}

// home sends a request to the group that looks after its owner.
func (s *steps) home(req *wire.Request) *wire.Error {
	g := wire.HomeOf(req.Owner, s.n.cfg.GroupCount)
	return s.all([]command{{group: g, sub: 1 << 32, req: req}})
}

// moved says that a routing change overtook the call, which should be tried again:
// it has waited a little for the new routes.
func (s *steps) moved(results []wire.Result) bool {
	for i := range results {
		if results[i].Code == wire.Unavailable && results[i].Position == engine.Moved &&
			s.n.clock.Mono()-s.since < s.n.cfg.RequestTimeout {
			time.Sleep(5 * time.Millisecond)
			return true
		}
	}
	return false
}
