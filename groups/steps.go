package groups

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pathlockd/pathlockd/engine"
	"github.com/pathlockd/pathlockd/groups/replica"
	"github.com/pathlockd/pathlockd/wire"
)

// Calls that are not one command in one group are carried out in steps, each on a
// goroutine of its own: what spans namespaces, what is about an owner wherever it
// is, listings, cycles. In each namespace such a call is linearizable; that it
// spans them is not one instant.

const (
	// maxStepped is how many calls are carried out in steps at once; over it they are
	// refused. Once half of the places are taken, none is given to a call that would wait for
	// a log that nobody leads (scarce): such calls stay for all of their time, and would keep
	// out those that need no such log.
	maxStepped = 4096
	// maxTended is how many looks at the node's health, and requests of operators, are carried
	// out at once. Their places are apart, as they are wanted most when calls have taken theirs.
	maxTended = 1024
)

// stepped carries a call out in steps.
func (n *Node) stepped(c *wire.Call, since time.Duration) *wire.Error {
	return n.steppedThen(c, since, func() {})
}

// steppedThen is stepped, and calls then before the call is answered.
func (n *Node) steppedThen(c *wire.Call, since time.Duration, then func()) *wire.Error {
	places, what := n.slow, "calls that span groups"
	if c.Op == wire.OpHealth || administers(c.Op) {
		places, what = n.tended, "requests of operators and for health"
	}
	select {
	case places <- struct{}{}:
	default:
		return wire.Errorf(wire.Unavailable, "%d %s are under way, no more are taken; nothing was done, try again",
			cap(places), what)
	}
	came := cameBefore(c)
	n.tasks.run(func() {
		s := steps{n: n, c: c, since: since, came: came, req: new(wire.Request), places: places}
		err := wire.DecodeArgs(c.Op, c.Body, c.NArgs, s.req)
		var res wire.Result
		if err == nil {
			res, err = s.run()
		}
		<-places
		if err != nil {
			res.Fail(err)
		}
		then()
		finish(c, &res)
	})
	return nil
}

// steps is one such call.
type steps struct {
	n      *Node
	c      *wire.Call
	req    *wire.Request // its own copy
	since  time.Duration
	came   uint64                      // cameBefore
	places chan struct{}               // it has one of them; nil for what the node does itself
	routes *wire.Routes                // that the namespaces in hand were resolved with, nil for none
	own    map[uint64]*replica.Machine // by log: the replicas that are up to date since caughtUp
	// by log: up to where it was applied when an owner was found there, if that is of use
	found map[uint64]int64
	only  map[uint64]bool // the logs of groups that the call has to do with, nil for all
	doubt *wire.Error     // why no log can say whether it was carried out before: it is only if its key is known
	began bool            // a group has carried a step of it out, or may have

	gaveWay int           // how often another attempt of its claim went on in its place
	took    time.Duration // the longest that an attempt of its own took until then
	claimed bool          // it has asked for an attempt, and may have one
	done    bool          // it was told that all was carried out before

	// Of a release:
	gave  map[wire.ReleaseRequest]bool // what was given back
	tried map[string]string            // by namespace: what tells a part from those before
}

// errMoved says that a move overtook the call: it is to be tried anew, with routes that are
// known by now.
var errMoved = wire.Errorf(wire.Unavailable, "a namespace of the request was moved meanwhile")

// run carries the call out, until no move overtakes it. What it did before does no harm when it
// is done again: it is known by its part of the request.
func (s *steps) run() (res wire.Result, err *wire.Error) {
	if err = s.behindAcquires(); err == nil {
		for again := true; again; {
			began := s.n.clock.Mono()
			res, err = s.once()
			again = err == errMoved || err == errSuperseded && s.giveWay(began)
		}
		if err != nil {
			s.yields()
		}
	}
	return res, s.partly(err)
}

// partly is why the call was not carried out, or not all of it. What has begun must not be
// answered as if nothing had been done, whatever came in between.
func (s *steps) partly(err *wire.Error) *wire.Error {
	if !s.began || err == nil || err.Code != wire.Unavailable && err.Code != wire.ResourceExhausted {
		return err
	}
	why := err.Message
	for _, nothing := range [...]string{"; nothing was done", "; nothing was read"} {
		why = strings.Replace(why, nothing, "", 1)
	}
	return wire.Errorf(wire.DeadlineExceeded,
		"it was or may have been carried out in a part of the groups that it is about; of the others one says: %s; "+
			"repeat it with the same idempotency_key or request id",
		why)
}

func (s *steps) once() (wire.Result, *wire.Error) {
	if administers(s.c.Op) {
		return s.administer()
	}
	switch s.c.Op {
	case wire.OpRelease:
		return s.release()
	case wire.OpReleaseAll:
		return s.releaseAll()
	case wire.OpRenew:
		return s.renew()
	case wire.OpBind:
		return s.bind()
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
	case wire.OpGetPolicy:
		return s.policy()
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
func (s *steps) propose(cmds []command) []wire.Result { return s.proposeWithin(cmds, forever) }

// proposeWithin is propose for who does not wait longer than so long: what is not answered by
// then is DEADLINE_EXCEEDED, and may be carried out yet.
func (s *steps) proposeWithin(cmds []command, within time.Duration) []wire.Result {
	results := make([]wire.Result, len(cmds))
	// others with its key rely on it that an attempt is over by then (engine's claimKey)
	if s.claims() && s.left() <= 0 {
		for i := range results {
			results[i] = overdue
		}
		return results
	}
	left := make([]int, len(cmds))
	for i := range left {
		left[i] = i
	}
	for left = s.proposeSome(cmds, left, results, within); len(left) > 0; {
		if late := s.late(results); late != nil { // a round may take as long as a call: it goes on no longer than one
			for _, i := range left {
				results[i] = *late
			}
			break
		}
		left = s.proposeSome(cmds, left, results, within)
	}
	for i := range results {
		s.began = s.began || begins(&results[i])
	}
	return results
}

// scarce refuses a call that has to do with a log that nobody leads, once more than half of the
// places are taken: it would keep its own until the log has a leader, or its time is over.
func (s *steps) scarce(shard uint64) *wire.Error {
	taken := len(s.places)
	if taken <= cap(s.places)/2 || !s.n.logs[shard].leaderless() {
		return nil
	}
	_, why := s.n.noLeader(shard)
	return wire.Errorf(wire.Unavailable,
		"%s; of %d calls that may be carried out in steps %d are, and no more are taken that need this log; nothing "+
			"was done, try again",
		why, cap(s.places), taken-1)
}

// noneScarce is scarce for several logs.
func (s *steps) noneScarce(asks func(shard uint64) bool) *wire.Error {
	for _, shard := range s.n.id.Logs() {
		if asks(shard) {
			if err := s.scarce(shard); err != nil {
				return err
			}
		}
	}
	return nil
}

// left is how much is left of the time that the call may take.
func (s *steps) left() time.Duration { return s.since + s.n.cfg.RequestTimeout - s.n.clock.Mono() }

// late answers what is left of a call's commands when it is not to go on with them after some results, else nil.
func (s *steps) late(results []wire.Result) *wire.Result {
	if i := slices.IndexFunc(results, attemptIsOver); i >= 0 {
		return &results[i]
	}
	if s.left() <= 0 {
		return &overdue
	}
	return nil
}

// overdue answers a command that its call has no time for any more.
var overdue = wire.Result{Code: wire.Unavailable, Message: "request_timeout_ms is over; nothing was done"}

// proposeSome carries some of the commands out, and answers which are left: those that there is no place for in their
// groups while others of the call have some there. Else a call of more commands in a group than are taken would never
// come through.
func (s *steps) proposeSome(cmds []command, some []int, results []wire.Result, within time.Duration) (left []int) {
	var mu sync.Mutex // late answers change what nobody looks at any more
	answers := make([]wire.Result, len(cmds))
	var proposed []int
	var logs touched
	var parts []*part
	all := newTogether(s.n.tasks)
	for _, i := range some {
		cmd := &cmds[i]
		if err := s.scarce(s.n.logOf(cmd.group).shard); err != nil {
			results[i].Fail(err)
			continue
		}
		counted := countedIn(cmd.req)
		if counted {
			if err := s.n.admit(cmd.group); err != nil {
				if within == forever && slices.ContainsFunc(proposed,
					func(j int) bool { return cmds[j].group == cmd.group }) {
					left = append(left, i)
				} else {
					results[i].Fail(err)
				}
				continue
			}
		}
		proposed = append(proposed, i)
		body, nargs := wire.AppendArgs(nil, cmd.req)
		all.add()
		p := &part{
			Command: replica.Command{
				Group: cmd.group, Op: cmd.req.Op, NArgs: nargs, Body: body, NSLen: len(cmd.ns), Version: s.version(),
				Session: s.c.Session, ID: s.c.ID, Settled: s.c.Settled, Sub: cmd.sub | 1<<63, Bound: s.c.Bound,
				Grace: s.c.Grace,
			},
			again:   s.c.Again,
			since:   s.since,
			counted: counted,
		}
		answers[i] = outcomeUnknown
		p.done = func(_ *part, res *wire.Result) {
			mu.Lock()
			answers[i] = *res
			mu.Unlock()
			all.done()
		}
		parts = append(parts, p)
	}
	s.push(parts, &logs)
	logs.start()
	all.waitFor(within)
	mu.Lock()
	defer mu.Unlock()
	for _, i := range proposed {
		results[i] = answers[i]
	}
	return left
}

// begins says that a command changed what its call is about, or may have; or that it claimed its
// key: a repeat of the call is carried out on what there was then.
func begins(res *wire.Result) bool {
	return res.Code == wire.OK || res.Code == wire.DeadlineExceeded
}

// push queues parts. What ties a lease to a connection is queued before the end of the
// connection is told, or not at all: nobody tells it again. Nor is a renewal of a connection that
// ended: its client has gone on, and may have renewed for longer since.
func (s *steps) push(parts []*part, logs *touched) {
	if s.c.Bound || s.c.Op == wire.OpRenew {
		ln := lineOf(s.c.Session)
		ln.mu.Lock()
		defer ln.mu.Unlock()
		if ln.stops(s.c.Op, ln.came+1) {
			s.n.settle(parts, &connectionOver)
			return
		}
	}
	for _, p := range parts {
		l := s.n.logOf(p.Group)
		l.push(p)
		logs.add(l)
	}
}

// version is that of the routes that commands are resolved with.
func (s *steps) version() uint64 {
	if s.routes != nil {
		return s.routes.Version
	}
	return s.n.routes.Load().Version
}

// all is propose for commands that must all succeed.
func (s *steps) all(cmds []command) *wire.Error {
	_, err := s.proposed(cmds)
	return err
}

// proposed is propose for commands none of which may be refused.
func (s *steps) proposed(cmds []command) ([]wire.Result, *wire.Error) {
	results := s.propose(cmds)
	return results, s.told(results)
}

// told answers why one of several requests was refused, nil when none was.
func (s *steps) told(results []wire.Result) *wire.Error {
	if s.moved(results) {
		return errMoved
	}
	if slices.ContainsFunc(results, attemptIsOver) {
		return errSuperseded
	}
	for i := range results {
		if err := results[i].Err(); err != nil {
			return err
		}
	}
	return nil
}

// attemptIsOver says that a part was refused to an attempt of a claim, as a later one has asked for it.
func attemptIsOver(res wire.Result) bool {
	return res.Code == wire.Unavailable && res.Position == engine.Superseded
}

// everywhere sends a request to every group in which its owner has an ownership record.
func (s *steps) everywhere(req *wire.Request) *wire.Error {
	if err := s.caughtUp(); err != nil {
		return err
	}
	present, err := s.find(s.req.Owner)
	if err != nil {
		return err
	}
	return s.each(present, req)
}

// present answers the groups in which the call's owner has an ownership record, in order; or that all of the
// call was carried out when it was asked before.
func (s *steps) present() (groups []uint16, done bool, err *wire.Error) {
	if err := s.resumed(s.caughtUp); err != nil {
		return nil, false, err
	}
	if done, err := s.wasDone(); done || err != nil {
		return nil, done, err
	}
	groups, err = s.find(s.req.Owner)
	return groups, false, err
}

// each sends a request to groups.
func (s *steps) each(groups []uint16, req *wire.Request) *wire.Error {
	var cmds []command
	for _, g := range groups {
		cmds = append(cmds, command{group: g, sub: uint64(g) + 1, req: req})
	}
	return s.all(cmds)
}

// home sends a request, the last of the call but for the end of its claim, to the group that looks after its owner.
func (s *steps) home(req *wire.Request) *wire.Error {
	sub := uint64(1 << 32)
	if !s.claims() { // else the log of the key is told, behind the end of the claim
		sub |= replica.WholeSub
	}
	return s.all([]command{{group: s.homeGroup(), sub: sub, req: req}})
}

// homeGroup is the group that looks after the call's owner.
func (s *steps) homeGroup() uint16 { return wire.HomeOf(s.req.Owner, s.n.cfg.GroupCount) }

// moved says that a routing change overtook the call, which should be tried again: this node
// knows the new routes by now.
func (s *steps) moved(results []wire.Result) bool {
	need := uint64(0)
	for i := range results {
		need = max(need, movedTo(&results[i], s.version()))
	}
	return need != 0 && s.n.awaited(need, s.since)
}
